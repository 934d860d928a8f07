// The configuration: every key, and errors with their places.

import CommandLineOptions
import Foundation
import TestSurroundings
import Testing

@testable import Push

@Suite struct PushFileTests {
    private static let keys: TestKeys = {
        let keys = TestKeys()
        try! keys.writeAccount(port: 1)
        keys.directory.openssl(
            "pkcs12 -export -legacy -inkey client.key -in client.pem -passout pass:word"
                + " -out legacy.p12")
        return keys
    }()
    private var keys: TestKeys { Self.keys }

    private func complaints(_ sections: String) -> String {
        do {
            _ = try keys.settings(sections)
            return ""
        } catch {
            return "\(error)".replacing(keys.directory.path, with: "DIR")
        }
    }

    @Test func `every key has its place in the settings`() throws {
        let settings = try keys.settings(
            """
            concurrency: 7, ratePerSecond: 8, waitingMaximum: 9, deadLettersMaximum: 10,
            logPerTarget: 11, logMaximum: 12, contents: true, totalsSeconds: 0,
            apns: [
              { name: "a", keyFile: "DIR/key.p8", keyId: "K", teamId: "T", tokenMinutes: 20,
                topic: "x", pushType: "background", priority: 5 },
              { name: "dev", certificateFile: "DIR/legacy.p12", passwordFile: "DIR/password",
                topic: "y", productionUrl: "https://p/", sandboxUrl: "https://s",
                caFile: "DIR/ca.pem",
                timeoutSeconds: 3 },
            ],
            fcm: { serviceAccountFile: "DIR/account.json", url: "https://f", caFile: "DIR/ca.pem",
                   timeoutSeconds: 4 },
            webhook: { secretFiles: ["DIR/secret"], allowHttp: true, timeoutSeconds: 5,
                       caFile: "DIR/ca.pem" },
            sms: { url: "https://sms", secretFiles: ["DIR/secret"] },
            mqtt: { server: "tcp://m:1", user: "u", passwordFile: "DIR/password", clientId: "c",
                    caFile: "DIR/ca.pem", version: "5.0" },
            udp: { networks: ["10.0.0.0/8"], keyFile: "DIR/udp.key", repeats: 3,
                   intervalMilliseconds: 100 },
            templates: { apns: { alert: "${message}" }, "sms-webhook": { text: "x" } },
            hook: { url: "https://hook", secretFiles: ["DIR/secret"], timeoutMilliseconds: 50,
                    onSilence: "drop" },
            """)
        #expect(settings.concurrency == 7 && settings.ratePerSecond == 8)
        #expect(settings.waitingMaximum == 9 && settings.deadLettersMaximum == 10)
        #expect(settings.logPerTargetMaximum == 11 && settings.logMaximum == 12)
        #expect(settings.apns.map(\.name) == ["a", "dev"] && settings.apns[0].priority == 5)
        #expect(settings.apns[1].productionURL == "https://p")
        guard case .certificate(let identity) = settings.apns[1].proof else {
            Issue.record("no certificate")
            return
        }
        #expect(String(decoding: identity.key, as: UTF8.self).contains("PRIVATE KEY"))
        #expect(settings.fcm?.project == "project-1" && settings.fcm?.timeoutSeconds == 4)
        #expect(settings.webhook?.isPlainAllowed == true)
        #expect(settings.webhook?.timeoutMilliseconds == 5_000)
        #expect(settings.mqtt?.isVersion5 == true && settings.mqtt?.password == "word")
        #expect(settings.udp?.datagramCount == 3 && settings.udp?.waitMilliseconds == 100)
        #expect(settings.hook?.isTemplateOnSilence == false)
        let lines = try PushQuestions.sample(settings, kind: "apns", push: nil)
        #expect(lines == [#"apns {"aps":{"alert":"hello"}}"#])
        #expect(
            PushQuestions.deviceKey(settings, user: "pump7", device: "")
                == "29594c83e35022e192b47157dee6d37830f9abaead8f0bf952930f997ba3d36e")
    }

    @Test(arguments: [
        ("", "the file has none of apns, fcm, webhook, sms, mqtt and udp"),
        ("apsn: {},", "push.json5:6:3: apsn is unknown; did you mean apns?"),
        ("apns: { topic: \"x\" },", "push.json5:6:9: apns needs either keyFile or certificateFile"),
        (
            "apns: { keyFile: \"DIR/rsa.key\", keyId: \"K\", teamId: \"T\", topic: \"x\" },",
            "apns.keyFile names DIR/rsa.key, which has a key of another kind"
        ),
        (
            "apns: { keyFile: \"DIR/ca.pem\", keyId: \"K\", teamId: \"T\", topic: \"x\" },",
            "which has no private key in PEM without a password"
        ),
        (
            "apns: { keyFile: \"DIR/key.p8\", keyId: \"K\\n\", teamId: \"T\", topic: \"x\" },",
            "apns.keyId may have letters, digits"
        ),
        (
            "apns: {certificateFile: \"DIR/client.p12\", passwordFile: \"DIR/wrong\", "
                + "topic: \"x\" },",
            "names DIR/client.p12, which has another password than passwordFile says"
        ),
        (
            "apns: { certificateFile: \"DIR/ca.pem\", topic: \"x\" },",
            "which is no file of PKCS #12"
        ),
        ("apns: { productionUrl: \"http://x\", topic: \"x\" },", "must be a URL with https"),
        ("fcm: { serviceAccountFile: \"DIR/ca.pem\" },", "which is no JSON"),
        ("fcm: {},", "fcm.serviceAccountFile is needed"),
        ("webhook: {},", "webhook.secretFiles is needed"),
        ("sms: { secretFiles: [\"DIR/secret\"] },", "sms.url is needed"),
        ("sms: { url: \"ftp://x\" },", "sms.url is no URL"),
        ("mqtt: {},", "mqtt.server is needed"),
        ("udp: { keyFile: \"DIR/secret\" },", "udp.keyFile has no key: 64 to 128 hexadecimal"),
        ("udp: { keyFile: \"DIR/udp.key\" },", "udp.networks is needed"),
        ("webhook: { secretFiles: [\"DIR/token\"] },", "is no secret: whsec_"),
        ("hook: { url: \"https://x\", onSilence: \"no\" },", "must be template or drop"),
        (
            "templates: { apns: { a: \"${b}\" } },",
            "push.json5:6:27: templates.apns.a has the unknown"
        ),
        ("templates: { udp: {} },", "templates.udp is unknown"),
    ])
    func `an error has its place and says what is expected`(sections: String, message: String) {
        #expect(complaints(sections).contains(message), "\(complaints(sections))")
    }

    @Test func `no error shows a secret`() {
        let text = complaints(
            "webhook: { secretFiles: [\"DIR/password\"] }, udp: { keyFile: \"DIR/password\" },")
        #expect(!text.contains("word,") && !text.contains(Fixture.secretText))
    }
}
