// The shards of a configuration, and the errors of invalid ones.

import Configuration
import Testing

@Suite struct ShardSettingsTests {
    /// The shards, as they are written, or the complaint about them.
    private func read(_ shards: String, _ others: String = "") -> String {
        let text = "{tls: {certificateFile: '/c', keyFile: '/k'}, shards: \(shards)\(others)}"
        do {
            let read = try LoadedConfiguration(text: Array(text.utf8), path: "m.json5")
            return read.printed.split(separator: "\n").first { $0.contains("shards:") }.map {
                String($0.split(separator: ",  //")[0].drop { $0 == " " })
            } ?? ""
        } catch {
            return error.complaints.map(\.description).joined(separator: "\n")
        }
    }

    @Test func `each shard has a name and apps`() {
        #expect(
            read("[{name: 'north', apps: ['plant', 'home']}, {name: 'a-2', apps: ['shop']}]")
                == #"shards: [{name: "north", apps: ["plant", "home"]}, "#
                + #"{name: "a-2", apps: ["shop"]}]"#)
        #expect(read("[]") == "shards: []")
    }

    @Test(arguments: [
        ("[{apps: ['a']}]", "must have name"),
        ("[{name: 'n'}]", "must have apps"),
        ("[{name: 'n', apps: []}]", "must have apps"),
        (
            "[{name: 'default', apps: ['a']}]",
            "must not be \"default\", the shard of all other apps"
        ),
        ("[{name: '-n', apps: ['a']}]", "no hyphen first, not \"-n\""),
        ("[{name: 'n', apps: ['a/b']}]", "has entry 1, which is no name of an app"),
        ("[{name: 'N', apps: ['a']}]", "small letters, digits and hyphens"),
        ("[{name: '../x', apps: ['a']}]", "small letters, digits and hyphens"),
        ("[{name: 'n', apps: ['a', 'a']}]", "has entry 2, which is \"a\" once more"),
        ("[{name: 'n', apps: ['a'], data: '/x'}]", "has data, which is unknown"),
        (
            "[{name: 'n', apps: ['a']}, {name: 'n', apps: ['b']}]",
            "entry 2 names the shard \"n\" once more"
        ),
        (
            "[{name: 'n', apps: ['a']}, {name: 's', apps: ['b', 'a']}]",
            "entry 2 has the app \"a\", which the shard \"n\" has"
        ),
    ])
    func `a mistake is named`(shards: String, complaint: String) {
        #expect(read(shards).contains(complaint), "\(read(shards))")
    }

    @Test func `there are at most fifteen, also in a cluster`() {
        func list(_ count: Int) -> String {
            "[\((0..<count).map { "{name: 'n\($0)', apps: ['a\($0)']}" }.joined(separator: ", "))]"
        }
        #expect(read(list(15)).hasPrefix("shards: ["))
        #expect(read(list(16)).contains("must have at most 15 entries"))
        let cluster = ", cluster: {servers: ['nats://a:4222'], node: 'n1', address: 'h:1883'}"
        #expect(read(list(1), cluster).hasPrefix("shards: ["))
    }
}
