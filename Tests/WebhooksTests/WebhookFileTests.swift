// Valid and invalid configurations of a relay: each error names its place, its key and the valid
// values.

import CommandLineOptions
import Foundation
import TestSurroundings
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct WebhookFileTests {
    private static let martlet = #"martlet: { server: "tcp://b:2", token: "t" }, stateFile: "s""#

    /// An authority that has signed nothing.
    private static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBcTCCARegAwIBAgIUWcOFiLfGDIymEwA9SXAjTY1Wf0kwCgYIKoZIzj0EAwIw
        DTELMAkGA1UEAwwCY2EwIBcNMjYxMTI2MTk0MzI4WhgPMjEyNjExMDIxOTQzMjha
        MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExsIIuxOY
        BNfvdfH2DeUXG9gReS4tFzbX/MaXH9MDytMPp2NIUW02Mg5dvWh9z7r4taZ/tupA
        wHPbTRBI8HH1ZqNTMFEwHQYDVR0OBBYEFIooS0vsbrMCkG9WlBfVihW58Ge2MB8G
        A1UdIwQYMBaAFIooS0vsbrMCkG9WlBfVihW58Ge2MA8GA1UdEwEB/wQFMAMBAf8w
        CgYIKoZIzj0EAwIDSAAwRQIgNMhYNVJpgxZFQ8U5R9Xc5gfLs/buKdtiL2iwTyvm
        oSsCIQCp7NzZv5pdatgcQR0+UFI4sHNK6zHRbM9TOfT3Av40xg==
        -----END CERTIFICATE-----

        """

    private let directory: TemporaryDirectory
    private let secretFile: String
    private let authorityFile: String

    init() throws {
        directory = try TemporaryDirectory("hooks")
        secretFile = "\(directory.path)/secret"
        authorityFile = "\(directory.path)/ca.pem"
        try write(Self.authority, to: authorityFile)
        try write("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", to: secretFile)
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
        chmod(path, 0o600)
    }

    private func complaints(_ text: String, token: String? = nil) -> String {
        do throws(UsageError) {
            _ = try WebhookFile.settings(text: Array(text.utf8), path: "f", token: token)
            return ""
        } catch {
            return error.message
        }
    }

    private func hook(_ members: String) -> String {
        """
        { \(Self.martlet), hooks: [
        { name: "a", url: "https://h/p", secretFiles: ["\(secretFile)"], kinds: ["receipt"],
        \(members) }] }
        """
    }

    @Test func `a complete file is read`() throws {
        let text = """
            {
              // Everything that there is.
              martlet: {
                server: "tls://b", caFile: "\(authorityFile)", device: "d", keepAliveSeconds: 9,
                inFlight: 7, packetMaximum: 4000000,
              },
              stateFile: "/s",
              privateNetworks: ["10.0.0.0/8", "::1"],
              retry: { firstMilliseconds: 50, longestSeconds: 60 },
              deadLettersMaximum: 5, totalsSeconds: 0,
              hooks: [{
                name: "a", url: "https://h/p?q=1", secretFiles: ["\(secretFile)", "\(secretFile)"],
                kinds: ["message.user", "group.changed"], topics: ["a/+"], groups: ["g"],
                presence: ["*"], order: "hook", batch: 10, timeoutSeconds: 3, concurrency: 2,
                validitySeconds: 60, queueMaximum: 9, queueMaximumBytes: 2000000,
                refusalsMaximum: 3, caFile: "\(secretFile)",
              }],
            }
            """
        let settings = try WebhookFile.settings(text: Array(text.utf8), path: "f", token: "env")
        #expect(
            settings.relay.token == "env" && settings.relay.device == "d"
                && settings.relay.inFlightMaximum == 7)
        #expect(settings.relay.privateNetworks.count == 2)
        #expect(settings.relay.packetByteCountMaximum == 4_000_000)
        #expect(settings.relay.retryMilliseconds == 50 && settings.relay.retrySecondsMaximum == 60)
        #expect(settings.filters == ["$presence/+", "a/+"])
        #expect(settings.groups == ["g"])
        let hook = settings.hooks[0]
        #expect(
            hook.kinds == [.messageUser, .groupChanged, .messageTopic, .presenceChanged])
        #expect(hook.secrets.count == 2 && hook.order == .hook && hook.batchMaximum == 10)
        #expect(hook.concurrency == 2 && hook.queueMaximum == 9 && hook.refusalsMaximum == 3)
    }

    @Test func `a file of authorities that is missing or has none is an error of the file`() {
        for (file, reason) in [
            ("/nowhere/ca.pem", "No such file"), (secretFile, "no authorities"),
        ] {
            let text = """
                { martlet: { server: "tls://b", token: "t",
                caFile: "\(file)" }, stateFile: "s", hooks: [] }
                """
            let complaints = complaints(text)
            let place = "f:2:9: martlet.caFile names \(file), which"
            #expect(complaints.contains(place), "\(complaints)")
            #expect(complaints.contains(reason), "\(complaints)")
        }
    }

    @Test(arguments: [
        (#"batch: 0"#, "f:3:8: hooks[0].batch must be a whole number from 1 to 100"),
        (#"bach: 2"#, "f:3:1: hooks[0].bach is unknown; did you mean batch?"),
        (#"order: "x""#, "f:3:8: hooks[0].order must be source or hook, not \"x\""),
        (#"topics: ["a/#/b"]"#, "f:3:10: hooks[0].topics[0] is no topic filter"),
        (#"groups: ["a/b"]"#, "f:3:10: hooks[0].groups[0] is no id"),
        (#"groups: ["*"]"#, ""),
        (
            #"caFile: "/nowhere/ca.pem""#,
            "hooks[0].caFile names /nowhere/ca.pem, which cannot be read"
        ),
        (#"concurrency: 65"#, "hooks[0].concurrency must be a whole number from 1 to 64"),
    ])
    func `an error in a hook names its place`(_ members: String, _ complaint: String) {
        let complaints = complaints(hook(members))
        #expect(complaint.isEmpty ? complaints.isEmpty : complaints.contains(complaint))
    }

    @Test func `keys that are needed are named`() {
        #expect(complaints("{}").contains("f:1:1: martlet is needed"))
        #expect(complaints("{}").contains("f:1:1: stateFile is needed"))
        #expect(complaints("{}").contains("f:1:1: hooks is needed"))
        let bare = complaints("{ \(Self.martlet), hooks: [{}] }")
        for key in ["name", "url", "secretFiles"] {
            #expect(bare.contains("hooks[0].\(key) is needed"))
        }
        #expect(bare.contains("is told nothing: it needs kinds, topics or presence"))
        #expect(complaints("{ \(Self.martlet), hooks: [] }").contains("hooks has no hook"))
        #expect(
            complaints(#"{ martlet: { server: "tcp://b" }, stateFile: "s", hooks: [] }"#)
                .contains("martlet.tokenFile is needed, or MARTLET_TOKEN"))
    }

    @Test(arguments: [
        ("ftp://h", "is no URL"), ("https://", "is no URL"), ("h/p", "is no URL"),
        ("https://u:p@h/", "has a user or a password"), ("https://h/ b", "is no URL"),
        ("http://127.0.0.1:99999/", "is no URL"), ("http://127.0.0.1:0/", "is no URL"),
        ("http://127.0.0.1%3a80/", "is no URL"), ("http://h:/", "is no URL"),
        ("http://h:8x/", "is no URL"), ("http://[::1/", "is no URL"), ("http://[h]/", "is no URL"),
        ("http://[::1]8080/", "is no URL"), ("http://:80/", "is no URL"),
    ])
    func `an address that is none is refused`(_ url: String, _ complaint: String) {
        let text = hook("").replacingOccurrences(of: "https://h/p", with: url)
        #expect(complaints(text).contains("hooks[0].url \(complaint)"))
    }

    @Test(arguments: [
        "http://127.0.0.1:65535/", "https://a-b.example_1:443?q=%3a", "http://[fd00::1]:8080/x",
        "http://[::ffff:10.0.0.1]",
    ])
    func `names and addresses with ports are addresses`(_ url: String) {
        let text = hook("").replacingOccurrences(of: "https://h/p", with: url)
        #expect(complaints(text).isEmpty)
    }

    @Test func `a secret that does not fit is refused and not shown`() throws {
        try write("whsec_c2hvcnQ=\n", to: secretFile)
        let complaint = complaints(hook(""))
        #expect(complaint.contains("secretFiles[0] is no secret: whsec_ and 24 to 64 bytes"))
        #expect(!complaint.contains("c2hvcnQ"))
        chmod(secretFile, 0o644)
        #expect(complaints(hook("")).contains("others may read"))
    }

    @Test func `kinds that need names are named where they belong`() {
        let text = hook("").replacingOccurrences(of: #""receipt""#, with: #""message.topic""#)
        #expect(complaints(text).contains("kinds[0] is what topics selects"))
        let other = hook("").replacingOccurrences(of: #""receipt""#, with: #""recept""#)
        #expect(complaints(other).contains("must be message.user or message.group or"))
    }

    @Test func `networks are read strictly`() {
        let text = "{ \(Self.martlet), privateNetworks: [\"10.0.0.1/8\", \"x\"], hooks: [] }"
        #expect(
            complaints(text).contains(
                "privateNetworks[0] has bits behind its prefix; did you mean 10.0.0.0/8?"))
        #expect(complaints(text).contains("privateNetworks[1] is no network"))
    }
}
