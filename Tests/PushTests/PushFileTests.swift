// The configuration: every key, and errors with their places.

import CommandLineOptions
import Foundation
import JSON5
import MartletClient
import TestSurroundings
import Testing
import WakeTemplates

@testable import Push
@testable import Relay

/// U+FDD0, which the compiler takes in no literal.
private let noncharacter = String(decoding: [0xEF, 0xB7, 0x90] as [UInt8], as: UTF8.self)

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
            sms: { url: "https://sms", secretFiles: ["DIR/secret"], numbers: ["+49", "+43"] },
            mqtt: { server: "tcp://m:1", user: "u", passwordFile: "DIR/password", clientId: "c",
                    caFile: "DIR/ca.pem", version: "5.0", topics: ["wake/%u/#"] },
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
        #expect(settings.mqtt?.topics.count == 1)
        #expect(settings.sms?.numberPrefixes == ["+49", "+43"])
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
            "apns: { keyFile: \"DIR/token\", keyId: \"K\", teamId: \"T\", topic: \"x\" },",
            "which has no private key in PEM without a password"
        ),
        (
            "apns: { keyFile: \"DIR/ca.pem\", keyId: \"K\", teamId: \"T\", topic: \"x\" },",
            "apns.keyFile cannot be used: others may read DIR/ca.pem"
        ),
        (
            "apns: { keyFile: \"DIR/key.p8\", keyId: \"K\\n\", teamId: \"T\", topic: \"x\" },",
            "apns.keyId must have at most 200 visible ASCII characters"
        ),
        (
            "apns: {certificateFile: \"DIR/client.p12\", passwordFile: \"DIR/wrong\", "
                + "topic: \"x\" },",
            "names DIR/client.p12, which has another password than passwordFile says"
        ),
        (
            "apns: { certificateFile: \"DIR/token\", topic: \"x\" },",
            "which is no file of PKCS #12"
        ),
        ("apns: { productionUrl: \"http://x\", topic: \"x\" },", "must be a URL with https"),
        ("fcm: { serviceAccountFile: \"DIR/token\" },", "which is no JSON"),
        ("fcm: {},", "fcm.serviceAccountFile is needed"),
        ("webhook: {},", "webhook.secretFiles is needed"),
        ("sms: { secretFiles: [\"DIR/secret\"] },", "sms.url is needed"),
        ("sms: { url: \"ftp://x\" },", "sms.url is no URL"),
        ("sms: { url: \"https://x\" },", "sms.numbers is needed"),
        ("sms: { numbers: [] },", "sms.numbers is empty"),
        ("sms: { numbers: [\"49\"] },", "sms.numbers[0] is no beginning of a number"),
        ("mqtt: {},", "mqtt.server is needed"),
        ("mqtt: {},", "mqtt.topics is needed"),
        ("mqtt: { topics: [\"a/#/b\"] },", "mqtt.topics[0] is no filter of topics"),
        ("mqtt: { topics: [\"$SYS/%u\"] },", "mqtt.topics[0] is no filter of topics"),
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

    @Test(arguments: [
        (["wake/%u/#"], "wake/bob/a/b", true), (["wake/%u/#"], "wake/bob", true),
        (["wake/%u/#"], "wake/eve/a", false), (["wake/%u/#"], "wake/bobby", false),
        (["a", "pager-%u/+"], "pager-bob/1", true), (["pager-%u/+"], "pager-bob/1/2", false),
        (["%u/%u"], "bob/bob", true), (["#"], "any/topic", true), (["#"], "$SYS/x", false),
        (["#"], "$u/boss", false), (["#"], "a/$b", true), (["#"], "a/+", false),
        (["#"], "a\u{80}", false), (["#"], "a" + noncharacter, false), (["#"], "", false),
        (["jos\u{E9}"], "jose\u{301}", false), ([], "a", false),
    ])
    func `a target names only topics of a filter, and none of the broker's own`(
        filters: [String], topic: String, isPermitted: Bool
    ) {
        var settings = MQTTSettings(server: ServerAddress(host: "h", port: 1))
        settings.topics = filters.compactMap { WakeTopicRule($0) }
        #expect(settings.topics.count == filters.count)
        #expect(settings.permits(topic, user: "bob") == isPermitted)
    }

    @Test func `the name of a user is no part of a filter`() throws {
        let rule = try #require(WakeTopicRule("wake/%u/x"))
        for name in ["+", "#", "a/b", ""] {
            #expect(!rule.permits("wake/\(name)/x", user: name))
            #expect(!rule.permits("wake/bob/x", user: name))
        }
        #expect(rule.permits("wake/%u/x", user: "%u"))
    }

    @Test func `an access token is used for some time, whatever Google says of its end`() throws {
        var fcm = FCMSender(
            try #require(
                try keys.settings("fcm: { serviceAccountFile: \"DIR/account.json\" },").fcm))
        let now = Fixture.moment(0)
        for seconds in ["0", "1", "18446744073709551615"] {
            _ = fcm.tokenRequest(now: now)
            let answer = DestinationAnswer(
                result: .answered(status: 200, retryAfterSeconds: 0),
                content: Array(#"{"access_token":"t","expires_in":\#(seconds)}"#.utf8))
            #expect(fcm.accept(token: answer, after: 0, now: now) == nil)
            guard case .ready = fcm.access(now: Fixture.moment(59_000)) else {
                Issue.record("no token with \(seconds)")
                return
            }
            guard case .wanted = fcm.access(now: Fixture.moment(86_400_000)) else {
                Issue.record("a token for longer than a day with \(seconds)")
                return
            }
        }
    }

    @Test func `a refusal of requests that carried an earlier access token ends no later one`()
        throws
    {
        var fcm = FCMSender(
            try #require(
                try keys.settings("fcm: { serviceAccountFile: \"DIR/account.json\" },").fcm))
        let now = Fixture.moment(0)
        let token = DestinationAnswer(
            result: .answered(status: 200, retryAfterSeconds: 0),
            content: Array(#"{"access_token":"t","expires_in":3600}"#.utf8))
        let refusal = DestinationAnswer(result: .answered(status: 401, retryAfterSeconds: 0))
        _ = fcm.tokenRequest(now: now)
        #expect(fcm.accept(token: token, after: 0, now: now) == nil)
        // Three requests are under way when the token ends.
        _ = fcm.outcome(refusal, of: 1)
        guard case .wanted = fcm.access(now: now) else {
            Issue.record("a token that was refused is used")
            return
        }
        _ = fcm.tokenRequest(now: now)
        _ = fcm.outcome(refusal, of: 2)
        #expect(fcm.accept(token: token, after: 3, now: now) == nil)
        _ = fcm.outcome(refusal, of: 3)
        guard case .ready = fcm.access(now: now) else {
            Issue.record("a token that nobody refused is not used")
            return
        }
    }

    @Test func `a profile that no sender has is the first one, and a fault of the hook's`() throws {
        let settings = try keys.settings(
            "apns: { keyFile: \"DIR/key.p8\", keyId: \"K\", teamId: \"T\", topic: \"x\" },")
        var apns = APNsSender(settings.apns)
        let wake = Fixture.wake(.apns, address: "00112233", push: #"{"_profile":"x","alert":"y"}"#)
        let sent = WakeContents.make(
            wake, answer: nil, template: WakeContents.builtIn(.apns), badge: 0)
        #expect(throws: Never.self) {
            try apns.request(for: wake, sent, now: Fixture.moment(0)).get()
        }
        let answered = WakeContents.make(
            wake, answer: try JSON5Parser.parse(wake.push), template: WakeContents.builtIn(.apns),
            badge: 0)
        #expect(throws: SendFault(.refused("unknown-profile", isFinal: true))) {
            try apns.request(for: wake, answered, now: Fixture.moment(0)).get()
        }
    }

    @Test(arguments: [
        (404, "", false), (404, #"{"error":{"status":"NOT_FOUND"}}"#, false),
        (404, #"{"error":{"details":[{"errorCode":"UNREGISTERED"}]}}"#, true),
    ])
    func `Google's token is gone only with Google's word`(
        status: Int, content: String, isGone: Bool
    ) throws {
        var fcm = FCMSender(
            try #require(
                try keys.settings("fcm: { serviceAccountFile: \"DIR/account.json\" },").fcm))
        let outcome = fcm.outcome(
            DestinationAnswer(
                result: .answered(status: status, retryAfterSeconds: 0),
                content: Array(content.utf8)), of: 1)
        if isGone {
            #expect(outcome == .gone("UNREGISTERED"))
        } else {
            guard case .failed(_, _, isDestination: true) = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }

    @Test func `Apple's token is gone only with Apple's word`() {
        let apns = APNsSender([])
        let gone = AttemptResult.answered(status: 410, retryAfterSeconds: 0)
        #expect(
            apns.outcome(DestinationAnswer(result: gone))
                == .failed("status 410", retryAfterSeconds: 0, isDestination: true))
        let content = Array(#"{"reason":"Unregistered"}"#.utf8)
        #expect(
            apns.outcome(DestinationAnswer(result: gone, content: content))
                == .gone("Unregistered"))
    }

    @Test func `no error shows a secret`() {
        let text = complaints(
            "webhook: { secretFiles: [\"DIR/password\"] }, udp: { keyFile: \"DIR/password\" },")
        #expect(!text.contains("word,") && !text.contains(Fixture.secretText))
    }
}
