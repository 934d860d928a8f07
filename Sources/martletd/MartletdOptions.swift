// The command line of the broker. Everything else is configuration: these options name the
// configuration file, or override keys of it for one start.

import BrokerRuntime
import CommandLineOptions
import Configuration
import JSON5

enum MartletdOption: String, OptionRules {
    case config
    case set
    case listen
    case data
    case dev
    case checkConfig = "check-config"
    case printConfig = "print-config"
    case verifyStore = "verify-store"
    case repair
    case dryRun = "dry-run"
    case restore
    case foundCluster = "found-cluster"
    case copyNode = "copy-node"
    case version
    case help

    var shape: OptionShape {
        switch self {
        case .config, .data, .restore, .copyNode: .value
        case .set, .listen: .repeated
        case .dev, .checkConfig, .printConfig, .verifyStore, .repair, .dryRun, .foundCluster,
            .version, .help:
            .flag
        }
    }

    var letter: Character? {
        switch self {
        case .config: "c"
        default: nil
        }
    }

    static var foreignNames: [String: String] {
        ["test-config": "--check-config", "p": "--listen", "v": "--set log.level=debug"]
    }

    static let helpPage = """
        martletd: the Martlet message broker

          martletd --dev                      a development broker, with its data in ./dev-data
          martletd --config FILE              with a configuration (docs/operating/configuration.md)

          -c, --config FILE    read this JSON5 file
          --set KEY=VALUE      override one key, such as limits.connections=500; may be repeated
          --data DIR           the directory of the store; overrides dataDirectory
          --listen URL         tls://HOST:PORT or tcp://HOST:PORT, for WebSocket wss:// or ws://,
                               for the HTTP API https:// or http://; may be repeated; overrides
                               listeners. HOST may be * or localhost.
                               tcp://localhost:1883?anonymous accepts clients without credentials,
                               for development
          --dev                create certificates, a demo app and two tokens in the data directory,
                               and write DIR/dev.env for shells
          --check-config       check the configuration, the certificates, keys and lists that it
                               names, and the data directory, and exit
          --print-config       print the effective values and the origin of each, and exit
          --verify-store       check every record of the store and exit, with the progress on a
                               terminal; the broker must not run
          --repair             with --verify-store: repair what can be repaired, and name each
                               change and each loss
          --dry-run            with --repair: name the changes and make none
          --restore DIR        restore a backup of the store into an empty data directory and exit
          --found-cluster      make the store the first one of a cluster whose log is empty, and
                               exit; waits 20 s for NATS servers that have just been started
          --copy-node DIR      copy the store of a cluster's node, which may run, for another node
                               and exit
          --version            print the version and exit
          -h, --help           print this page and exit

        Exit codes: 0 success, 1 invalid command line or configuration, 2 other failures, 3 address
        in use, 4 store unusable, 8 another node of the cluster is the primary now. SIGTERM and
        SIGINT stop the broker; no acknowledged message is lost. SIGHUP reads the configuration,
        certificates and keys again.
        """
}

extension ParsedOptions<MartletdOption> {
    /// The options that override keys of the configuration file.
    var overrides: [SettingOverride] {
        var overrides: [SettingOverride] = []
        let data = self[.data]
        if has(.dev) {
            let directory = data ?? "dev-data"
            let certificate = DevelopmentSetup.certificateFile(dataDirectory: directory)
            let key = DevelopmentSetup.keyFile(dataDirectory: directory)
            overrides += [
                "dataDirectory=\(JSONText.quoted(directory))",
                "tls.certificateFile=\(JSONText.quoted(certificate))",
                "tls.keyFile=\(JSONText.quoted(key))",
            ].map { SettingOverride(option: "--dev", assignment: $0) }
            // A configuration has its own listeners.
            if self[.config] == nil {
                overrides.append(
                    SettingOverride(
                        option: "--dev",
                        assignment: "listeners=[\(DevelopmentSetup.listeners)]"))
            }
        }
        let offline: [MartletdOption] = [.restore, .verifyStore, .foundCluster, .copyNode]
        if let used = offline.first(where: { self.has($0) }) {
            // No listener is opened, so no certificate is needed.
            let option = "--\(used.rawValue)"
            overrides.append(
                SettingOverride(
                    option: option, assignment: "listeners=[\"tcp://localhost:1883\"]"))
        }
        overrides += all(.set).map { SettingOverride(assignment: $0) }
        if let data {
            overrides.append(
                SettingOverride(
                    option: "--data", assignment: "dataDirectory=\(JSONText.quoted(data))"))
        }
        let listeners = all(.listen)
        if !listeners.isEmpty {
            let list = listeners.map(JSONText.quoted).joined(separator: ",")
            overrides.append(
                SettingOverride(option: "--listen", assignment: "listeners=[\(list)]"))
        }
        return overrides
    }
}
