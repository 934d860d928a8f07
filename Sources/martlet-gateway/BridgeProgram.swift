// The program `martlet-gateway bridge`, from its arguments to its exit code.

import Bridge
import CommandLineOptions
import Files
import Glibc
import NetTransport

enum BridgeOption: String, OptionRules {
    case config
    case checkConfig = "check-config"
    case help

    var shape: OptionShape {
        switch self {
        case .config: .value
        case .checkConfig, .help: .flag
        }
    }

    static let helpPage = """
        martlet-gateway bridge: messages between an MQTT broker and Martlet, by rules

        Usage: martlet-gateway bridge --config=FILE [--check-config]

          --config=FILE    the two brokers and the rules, as JSON5
          --check-config   check the file and exit
          -h, --help       print this page and exit

        A file to begin with:

          {
            mqtt: { server: "tcp://127.0.0.1:1883", clientId: "martlet-bridge" },
            martlet: { server: "tls://broker.example:8883", tokenFile: "bridge.token" },
            stateFile: "/var/lib/martlet-bridge/state",
            toMartlet: [
              { from: "plant/+/temp", to: { user: "panel-{1}" } },
              { from: "site7/#", to: { topic: "mqtt/{0}/{1..}" } },
            ],
            toMqtt: [
              { from: { inbox: "*" }, to: "martlet/{from}" },
              { from: { topic: "command/+" }, to: "plant/{1}/command" },
            ],
          }

        Martlet's token may also be in MARTLET_TOKEN. After SIGTERM or SIGINT the bridge waits for
        outstanding answers and stops; a second one stops it at once. No acknowledged message is
        lost by that or by a kill. SIGHUP reads the rules again, SIGUSR1 writes a line of counters.
        docs/operating/bridge.md lists all keys and the guarantees.
        """
}

enum BridgeProgram {
    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        do throws(UsageError) {
            switch try OptionParser<BridgeOption>.parse(arguments) {
            case .help:
                StandardStream.output.print(BridgeOption.helpPage)
                return .success
            case .run(let parsed):
                let path = try parsed.required(.config)
                let settings = try settings(path)
                if parsed.has(.checkConfig) {
                    StandardStream.output.print("the configuration is valid")
                    return .success
                }
                return run(settings, path: path)
            }
        } catch {
            StandardStream.error.print(
                "martlet-gateway bridge: \(error.message)\nSee martlet-gateway bridge --help")
            return .usage
        }
    }

    private static func settings(
        _ path: String, again: Bool = false
    ) throws(UsageError) -> BridgeSettings {
        try BridgeFile.settings(
            text: again ? try UsageError.rereading(path) : try UsageError.reading(path),
            path: path,
            token: getenv("MARTLET_TOKEN").map { String(cString: $0) })
    }

    /// Reads the file again, on the thread of signals.
    private static func reload(_ path: String, _ control: BridgeControl) {
        do throws(UsageError) {
            control.reload(try settings(path, again: true))
        } catch {
            control.keepRules(because: error.message)
        }
    }

    private static func run(_ settings: BridgeSettings, path: String) -> ExitCode {
        let signals = ProgramSignals()
        do throws(TransportError) {
            let control = try BridgeControl()
            signals.receive(
                reload: { reload(path, control) }, report: { control.logTotals() },
                stop: { control.drain() })
            return run(settings, control)
        } catch {
            StandardStream.error.print("martlet-gateway bridge: \(error)")
            return .failure
        }
    }

    private static func run(_ settings: BridgeSettings, _ control: BridgeControl) -> ExitCode {
        let text: String
        let code: ExitCode
        do throws(BridgeProcess.Failure) {
            try BridgeProcess.run(settings, control)
            return .success
        } catch {
            (text, code) =
                switch error {
                case .record(let failure): ("\(failure)", .storeUnusable)
                case .transport(let failure): ("\(failure)", .failure)
                case .refused(let reason): (reason, .notConnected)
                }
        }
        StandardStream.error.print("martlet-gateway bridge: \(text)")
        return code
    }
}
