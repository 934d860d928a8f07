// Configurations, the settings that they give, and the errors of invalid ones.
import Configuration
import Testing

/// Enough for the standard listeners, which need a certificate.
private let certificate = "tls: {certificateFile: '/c.pem', keyFile: '/k.pem'}"

private func load(
    _ text: String?, set: String...
) throws(ConfigurationError) -> LoadedConfiguration {
    try LoadedConfiguration(
        text: text.map { Array($0.utf8) }, path: "m.json5",
        overrides: set.map { SettingOverride(assignment: $0) })
}

/// The complaints about a configuration as lines; none if it is good.
private func complaints(_ text: String?, set: String...) -> [String] {
    do {
        _ = try LoadedConfiguration(
            text: text.map { Array($0.utf8) }, path: "m.json5",
            overrides: set.map { SettingOverride(assignment: $0) })
        return []
    } catch {
        return error.complaints.map(\.description)
    }
}

@Suite struct LoadedConfigurationTests {
    @Test(arguments: ["clientAuthorityFile: '/ca.pem'", "pskFile: '/psk', clientApp: 'other'"])
    func `nobody registers where certificates or pre-shared keys name users`(key: String) {
        let apps = "apps: [{app: 'plant', interfaces: ['rest', 'registration']}]"
        #expect(complaints("{\(certificate), \(apps)}").isEmpty)
        let tls = certificate.replacing("}", with: ", \(key)}")
        #expect(complaints("{\(tls), \(apps)}").contains { $0.contains("has registration") })
    }

    @Test func `registration needs the interface that logs in`() {
        let lines = complaints("{\(certificate), apps: [{app: 'a', interfaces: ['registration']}]}")
        #expect(lines.contains { $0.contains("without rest") })
    }

    @Test func `an empty object gives the defaults`() throws {
        var expected = BrokerSettings()
        expected.tls.certificateFile = "/c.pem"
        expected.tls.keyFile = "/k.pem"
        #expect(try load("{\(certificate)}").settings == expected)
        #expect(expected.limits.authenticationSeconds == 15)
        #expect(expected.limits.messageMaximum == 1024)
        #expect(expected.limits.sessionExpirySeconds == 604_800)
        #expect(expected.listeners.map(\.description) == ["tls://*:8883", "tcp://localhost:1883"])
    }

    @Test(arguments: ["", "\n", "  // nothing yet\n", "/* nothing */", "\u{FEFF}"])
    func `an empty file keeps all defaults`(text: String) throws {
        let set = ["tls.certificateFile=/c.pem", "tls.keyFile=/k.pem"].map {
            SettingOverride(assignment: $0)
        }
        let expected = try LoadedConfiguration(text: nil, overrides: set)
        let found = try LoadedConfiguration(text: Array(text.utf8), overrides: set)
        #expect(found.settings == expected.settings)
    }

    @Test func `every key can be written and is read back`() throws {
        let printed = try load("{\(certificate)}").printed
        #expect(
            try load(printed).printed.split(separator: "\n").count
                == printed.split(separator: "\n").count)
        for setting in SettingTable.all {
            let name = setting.key.split(separator: ".").last ?? ""
            #expect(printed.contains("\(name): "), "\(setting.key)")
            let origin = try load(printed).origin(of: setting.key)
            #expect(origin != .standard, "\(setting.key)")
        }
    }

    @Test func `single apps have their own settings, and the broker's for the others`()
        throws
    {
        let app = "{app: 'plant', refusedPublish: 'count', takeoversPerMinute: 20}"
        let loaded = try load("{\(certificate), apps: [\(app), {app: 'b', joinsGroups: false}]}")
        #expect(
            loaded.settings.apps == [
                AppSettings(app: "plant", refusedPublish: .count, takeoversPerMinute: 20),
                AppSettings(app: "b", joinsGroups: false),
            ])
        #expect(try load(loaded.printed).settings == loaded.settings)
        for (apps, complaint) in [
            ("[{joinsGroups: true}]", "entry 1 must have app, the name of the app"),
            ("[{app: 'a'}, {app: 'a'}]", "entry 2 names the app \"a\" once more"),
            (
                "[{app: 'a', refusedPublish: 'maybe'}]",
                "entry 1 has refusedPublish, which must be one of \"close\", \"count\""
            ),
            (
                "[{app: 'a', takeoversPerMinute: 0}]",
                "entry 1 has takeoversPerMinute, which must be from 1 to 1000, not 0"
            ),
            ("[{app: 'a', joinGroups: true}]", "entry 1 has joinGroups, which is unknown"),
        ] {
            let told = complaints("{\(certificate), apps: \(apps)}")
            #expect(told.count == 1 && told[0].contains(complaint), "\(told)")
        }
    }

    @Test func `keys of account servers are a list of objects`() throws {
        let key = "{app: 'demo', kid: 'k1', algorithm: 'ES256', file: '/k1.pem'}"
        let loaded = try load("{\(certificate), jwt: {keys: [\(key)]}}")
        let expected = WebTokenKeySettings(
            app: "demo", kid: "k1", algorithm: .es256, file: "/k1.pem")
        #expect(loaded.settings.jwt.keys == [expected])
        #expect(try load(loaded.printed).settings == loaded.settings)
        #expect(
            complaints("{\(certificate), jwt: {keys: [\(key), \(key)]}}").first?
                .contains("two keys called k1 for the app demo") == true)
    }

    @Test func `identity providers are a list of objects`() throws {
        let issuer =
            "{issuer: 'https://a', audience: 'm', app: 'demo', file: '/j', "
            + "user: '${name}', rights: ['send:${sub}', '${roles}']}"
        let loaded = try load("{\(certificate), jwt: {issuers: [\(issuer)]}}")
        let expected = TokenIssuerSettings(
            issuer: "https://a", audience: "m", app: "demo", file: "/j", user: "${name}",
            rights: ["send:${sub}", "${roles}"])
        #expect(loaded.settings.jwt.issuers == [expected])
        #expect(try load(loaded.printed).settings == loaded.settings)
        for (issuers, complaint) in [
            ("[\(issuer), \(issuer)]", "two issuers called https://a"),
            ("[{issuer: 'a', app: 'b', file: '/f'}]", "must have issuer, audience"),
            ("[{issuer: 'a', audience: 'm', app: 'b', file: '/f', rights: 'x'}]", "list"),
            ("[{issuer: 'a', audience: 'm', app: 'b', file: '/f', aud: 'x'}]", "has aud"),
        ] {
            let told = complaints("{\(certificate), jwt: {issuers: \(issuers)}}")
            #expect(told.count == 1 && told[0].contains(complaint), "\(told)")
        }
    }

    @Test(arguments: [
        ("{app: 'a', kid: 'k', algorithm: 'none', file: '/f'}", "entry 1 has the algorithm none"),
        ("{app: 'a', kid: 'k', algorithm: 'ES256'}", "entry 1 must have app, kid"),
        ("{app: 'a', kid: 'k', algorithm: 'ES256', file: '/f', x: 1}", "entry 1 has x"),
        ("'k'", "entry 1 must be an object"),
        ("{app: 'a', kid: 'k', algorithm: 'HS256', file: '/f'}", "needs jwt.allowHS256"),
    ])
    func `an invalid key is refused`(_ key: String, _ reason: String) throws {
        let found = complaints("{\(certificate), jwt: {keys: [\(key)]}}")
        #expect(found.count == 1)
        #expect(found[0].contains(reason), "\(found)")
    }

    @Test func `client certificates need an authority`() {
        let found = complaints(
            "{\(certificate), listeners: ['tls://*:1?clientCertificates=required']}")
        #expect(found.first?.contains("needs tls.clientAuthorityFile") == true)
    }

    @Test func `the command line overrides the file, and the file the default`() throws {
        let loaded = try load(
            "{\(certificate),\n limits: {sendWindow: 5, inboxWindow: 6}}",
            set: "limits.sendWindow=7")
        #expect(loaded.settings.limits.sendWindow == 7)
        #expect(loaded.settings.limits.inboxWindow == 6)
        #expect(loaded.origin(of: "limits.sendWindow") == .commandLine(option: "--set"))
        #expect(loaded.origin(of: "limits.inboxWindow").description == "m.json5:2:39")
        #expect(loaded.origin(of: "limits.connections") == .standard)
        #expect(loaded.printed.contains("sendWindow: 7,  // --set"))
        #expect(loaded.printed.contains("connections: 100000,  // default"))
    }

    @Test func `a bare word on the command line is a string`() throws {
        let loaded = try load(
            "{\(certificate)}", set: "log.level=debug", "dataDirectory=/srv/a b",
            "queues.bytes=0x1000",
            "listeners=['tls://*:1']")
        #expect(loaded.settings.log.level == .debug)
        #expect(loaded.settings.dataDirectory == "/srv/a b")
        #expect(loaded.settings.queues.bytes == 4096)
        #expect(loaded.settings.listeners.map(\.description) == ["tls://*:1"])
    }

    /// Text, overrides, and the complaints to expect, in order.
    static let wrong: [(text: String, set: String?, complaints: [String])] = [
        ("{a:1,\n b:x}", nil, ["m.json5:2:4: x is no value; a text needs quotes"]),
        ("{a:1\n b:2}", nil, ["m.json5:2:2: a comma or } is missing before this"]),
        (
            "{\n\tlimits: {\n\t\tconnections: 5\n", nil,
            ["m.json5:4:1: a comma or } is missing before this"]
        ),
        ("[]", nil, ["m.json5:1:1: a configuration is an object in braces, not a list"]),
        (
            "{limits: {\n  sendWidnow: 5}}", nil,
            ["m.json5:2:3: limits.sendWidnow is not known; did you mean limits.sendWindow?"]
        ),
        (
            "{sendWindow: 5}", nil,
            ["m.json5:1:2: sendWindow is not known; did you mean limits.sendWindow?"]
        ),
        ("{colour: 5}", nil, ["m.json5:1:2: colour is not known"]),
        ("{limits: 5}", nil, ["m.json5:1:10: limits must be an object in braces, not a number"]),
        (
            "{limits: {connections: '5'}}", nil,
            ["m.json5:1:24: limits.connections must be a number, not a text"]
        ),
        (
            "{limits: {connections: 1.5}}", nil,
            ["m.json5:1:24: limits.connections must be a whole number, not 1.5"]
        ),
        (
            "{limits: {connections: 0, sendWindow: 65536}}", nil,
            [
                "m.json5:1:24: limits.connections must be from 1 to 1000000, not 0",
                "m.json5:1:39: limits.sendWindow must be from 1 to 65535, not 65536",
            ]
        ),
        (
            "{limits: {connections: 99999999999999999999}}", nil,
            ["m.json5:1:24: limits.connections must be a whole number, not 99999999999999999999"]
        ),
        (
            "{log: {level: 'loud'}}", nil,
            ["m.json5:1:15: log.level must be one of \"error\", \"warning\", \"info\", \"debug\""]
        ),
        (
            "{store: {checksPages: 1}}", nil,
            ["m.json5:1:23: store.checksPages must be true or false, not a number"]
        ),
        ("{dataDirectory: ''}", nil, ["m.json5:1:17: dataDirectory must not be empty"]),
        (
            "{dataDirectory: null}", nil,
            ["m.json5:1:17: dataDirectory must be a text in quotes, not null"]
        ),
        (
            "{web: {allowedOrigins: ['https://a.example', 'shop.example']}}", nil,
            [
                "m.json5:1:24: web.allowedOrigins entry 2 \"shop.example\" is no origin of a page: "
                    + "the scheme is missing, as in https://shop.example"
            ]
        ),
        ("{listeners: []}", nil, ["m.json5:1:13: listeners must name at least one listener"]),
        (
            "{listeners: ['tls://*:8883', 'udp://*:1']}", nil,
            [
                "m.json5:1:13: listeners entry 2 must be like tls://*:8883, "
                    + "tcp://localhost:1883, wss://*:8084 or https://*:8443"
                    + "; udp:// is not known"
            ]
        ),
        (
            "{}", "limits.sendWindow",
            ["--set: \"limits.sendWindow\" must be written KEY.PATH=VALUE"]
        ),
        (
            "{}", "limits.sendWindw=1",
            ["--set: limits.sendWindw is not known; did you mean limits.sendWindow?"]
        ),
        ("{}", "limits.sendWindow=many", ["--set: limits.sendWindow must be a number, not a text"]),
        (
            "{}", nil,
            ["default: listeners has tls://*:8883, which needs tls.certificateFile and tls.keyFile"]
        ),
        (
            "{listeners: ['tcp://*:1'], tls: {keyFile: '/k'}}", nil,
            ["default: tls.certificateFile needs tls.keyFile beside it, and the other way round"]
        ),
        (
            "{listeners: ['tcp://*:1'], files: {directory: '/f', address: 'https://f'}, cluster: "
                + "{servers: ['nats://n:1'], node: 'a', address: 'a:1'}}", nil,
            [
                "m.json5:1:47: files.directory does not go with cluster.servers: a file is on the "
                    + "disk of one node, and would be lost with it"
            ]
        ),
        (
            "{listeners: ['tcp://*:1'], limits: {packetMaximum: 4000001}, cluster: {servers: "
                + "['nats://n:1'], node: 'a', address: 'a:1'}}", nil,
            [
                "m.json5:1:52: limits.packetMaximum must be at most 4000000 beside "
                    + "cluster.servers, because a packet has to fit into a record of the "
                    + "cluster's log"
            ]
        ),
        (
            "{listeners: ['tcp://*:1'], limits: {packetMaximum: 300000}}", nil,
            [
                "m.json5:1:52: limits.packetMaximum must be at least 66000 more than "
                    + "limits.payloadMaximum (262144)"
            ]
        ),
        (
            "{listeners: ['tcp://*:1'], store: {mapBytes: 0x1000000}}", nil,
            [
                "m.json5:1:46: store.mapBytes must be at least twice store.softLimitBytes "
                    + "(34359738368)"
            ]
        ),
        (
            "{listeners: ['tcp://*:1'], limits: {sessionExpiryMaximumSeconds: 60}}", nil,
            [
                "default: limits.sessionExpirySeconds must not be more than "
                    + "limits.sessionExpiryMaximumSeconds (60)"
            ]
        ),
    ]

    @Test(arguments: wrong)
    func `an error names its place`(
        text: String, set: String?, expected: [String]
    ) {
        let said = if let set { complaints(text, set: set) } else { complaints(text) }
        #expect(said == expected)
    }

    @Test func `a reload knows which keys changed`() throws {
        let before = try load("{\(certificate)}")
        let after = try load("{\(certificate), log: {level: 'debug'}, loops: 2}")
        let changed = after.settingsChanged(from: before)
        #expect(changed.map(\.key) == ["loops", "log.level"])
        #expect(changed.map(\.reload) == [.restart, .atOnce])
        #expect(before.settingsChanged(from: before).isEmpty)
    }

    @Test func `an error names a missing file`() {
        #expect {
            try ConfigurationFile.load(path: "/nowhere/m.json5", overrides: [])
        } throws: { error in
            "\(error)" == "/nowhere/m.json5: No such file or directory"
        }
    }

    @Test func `reading a device as configuration does not fill the memory`() {
        #expect {
            try ConfigurationFile.load(path: "/dev/zero", overrides: [])
        } throws: { error in
            "\(error)" == "/dev/zero: is larger than 1048576 bytes"
        }
    }
}
