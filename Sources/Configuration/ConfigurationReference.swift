// Renders the reference of all keys as Markdown. A test compares it with
// docs/operating/configuration.md.

import JSON5

extension SettingTable {
    /// The page for operators.
    public static var referencePage: String {
        let defaults = BrokerSettings()
        var page = """
            # Configuration

            One JSON5 file: JSON with comments, keys without quotes, and trailing commas. Give it
            with `martletd --config FILE`. Every key has a default. The default listeners include
            one for TLS, which needs `tls.certificateFile` and `tls.keyFile`; the file may be empty
            or absent only if no TLS listener is configured (`--set`) or with `--dev`.
            `--set KEY.PATH=VALUE` overrides the file. `--print-config` shows every effective
            value and its source. `--check-config` reads the file and the certificates, keys and
            lists that it names, and reports the errors. An unknown key, a value of the wrong
            type or out of range, or a syntax error prevents the start; the message names file,
            line and column.

            `SIGHUP` reads the file again. The column "Reload" shows when a changed key takes
            effect: *at once*, also for connected sessions; for *new connections*; or at the next
            *restart*. A file with an error changes nothing. The log line
            `configuration_reloaded` lists in `needs_restart` the keys whose new values need a
            restart.

            ```json5
            {
                // A broker on its own network.
                dataDirectory: "/var/lib/martlet",
                listeners: ["tls://*:8883", "tcp://localhost:1883"],
                tls: {
                    certificateFile: "/etc/martlet/server.pem",
                    keyFile: "/etc/martlet/server-key.pem",
                },
                queues: { messages: 5000, policy: "oldest" },
            }
            ```

            <!-- The tables below are rendered from Sources/Configuration/SettingTable.swift. -->

            """
        let sections: [Substring] = all.map { Self.section(of: $0) }
        var links: [String] = []
        for section in sections {
            let link = "[\(section)](#\(section))"
            if links.last != link { links.append(link) }
        }
        page += "Contents: \(links.joined(separator: " · "))\n"
        var section: Substring?
        for setting in all {
            let newSection = self.section(of: setting)
            if newSection != section {
                page += "\n## \(newSection)\n\n"
                page += "| Key | Default | Values | Reload | Meaning |\n|---|---|---|---|---|\n"
                section = newSection
            }
            page += "| `\(setting.key)` | `\(setting.written(defaults))` | \(setting.domain) "
            page += "| \(setting.reload.rawValue) | \(setting.reason) |\n"
        }
        return page
    }

    /// The section that a setting is in: the first part of its key.
    private static func section(of setting: Setting) -> Substring {
        let parts = setting.key.split(separator: ".")
        return parts.count > 1 ? parts[0] : "general"
    }
}
