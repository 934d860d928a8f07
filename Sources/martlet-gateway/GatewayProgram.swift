// The gateway's program, from its arguments to its exit code.

import CommandLineOptions
import Files
import Gateway
import Glibc
import MartletClient
import NetTransport

enum GatewayOption: String, OptionRules {
    case server
    case ca
    case token
    case tokenFile = "token-file"
    case line
    case lines
    case willTo = "will-to"
    case will
    case version
    case help

    var shape: OptionShape {
        switch self {
        case .server, .ca, .token, .tokenFile, .lines, .willTo, .will: .value
        case .line: .repeated
        case .version, .help: .flag
        }
    }

    static let helpPage = """
        martlet-gateway: many devices on serial lines, one connection to the broker

        Usage: martlet-gateway --line=IDENTITY=PLACE [--line=IDENTITY=PLACE ...] [options]
               martlet-gateway bridge --config=FILE    messages between an MQTT broker and Martlet
               martlet-gateway webhook --config=FILE   HTTP requests for what a client receives
               martlet-gateway push --config=FILE      wake-ups of users who are not connected

          --line=IDENTITY=PLACE
                              a line and the device on it. IDENTITY is a user, or USER/DEVICE;
                              the device cannot log in as another one. PLACE is /dev/ttyUSB0,
                              /dev/ttyUSB0@57600 (the default is 115200 baud), or
                              tcp://HOST:PORT, the UART of an emulator or a terminal server
          --lines=FILE        a file with a line in each of its lines, written as IDENTITY=PLACE;
                              SIGHUP reads it again, and other lines continue meanwhile
          --server=ADDRESS    the broker, tls://HOST:PORT or tcp://HOST:PORT  or MARTLET_SERVER;
                              the nodes of a cluster with commas between them
          --ca=FILE           the trusted authorities (default: the system's)     or MARTLET_CA
          --token=TOKEN       the gateway's own token                          or MARTLET_TOKEN
          --token-file=FILE   a file whose first line is the token; other users must not be able
                              to read it
          --will-to=USER      the receiver of a message when the broker loses the gateway
          --will=TEXT         the text of that message (default: gateway lost)
          --version           print the version and exit
          -h, --help          print this page and exit; bridge, webhook and push have pages of
                              their own: martlet-gateway push --help

        The token needs the right to attach its devices, such as attach:plant7-*, and the rights
        that the devices need. A device may log in with a token of its own if the token belongs to
        the user of its line.

        A device counts as lost, and its will is sent, when its line ends (an emulator exits, an
        adapter is unplugged) or when it is silent for one and a half times its keep-alive.
        SIGTERM or SIGINT stops the gateway; its devices are lost then. So does SIGHUP without
        --lines. SIGUSR1 writes a line of counters. For more see docs/operating/gateway.md.
        """
}

enum GatewayProgram {
    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        let settings: GatewaySettings
        let options: ParsedOptions<GatewayOption>
        do throws(UsageError) {
            // As `martlet help`.
            let words = arguments == ["help"] ? ["--help"] : arguments
            switch try OptionParser<GatewayOption>.parse(words) {
            case .help:
                StandardStream.output.print(GatewayOption.helpPage)
                return .success
            case .run(let parsed) where parsed.has(.version):
                StandardStream.output.print("martlet-gateway \(ProgramVersion.text)")
                return .success
            case .run(let parsed):
                options = parsed
                settings = try self.settings(parsed)
            }
        } catch {
            StandardStream.error.print(
                "martlet-gateway: \(error.message)\nSee martlet-gateway --help")
            return .usage
        }
        return run(settings, options)
    }

    private static func run(
        _ settings: GatewaySettings, _ options: ParsedOptions<GatewayOption>
    ) -> ExitCode {
        let signals = ProgramSignals()
        do throws(TransportError) {
            let control = try GatewayControl()
            let reload: @Sendable () -> Void = { Self.reload(options, control) }
            signals.receive(
                reload: options.has(.lines) ? reload : nil, report: { control.logTotals() },
                stop: { control.stop() })
            if let failure = try GatewayProcess.run(settings, control) {
                StandardStream.error.print("martlet-gateway: \(failure)")
                return .notConnected
            }
            return .success
        } catch {
            StandardStream.error.print("martlet-gateway: \(error)")
            return .failure
        }
    }

    private static func settings(
        _ parsed: ParsedOptions<GatewayOption>
    ) throws(UsageError) -> GatewaySettings {
        let address = try needed(.server, variable: "MARTLET_SERVER", in: parsed)
        let servers: [ServerAddress]
        do throws(MartletError) {
            servers = try ServerAddress.list(address)
        } catch {
            throw UsageError("--server: \(error)")
        }
        var tls: ClientTLSContext?
        if servers[0].transport == .tls {
            let file = parsed[.ca] ?? variable("MARTLET_CA")
            do throws(TransportError) {
                tls = try ClientTLSContext(trust: file.map { .authorityFile($0) } ?? .system)
            } catch {
                throw UsageError("--ca: \(error)")
            }
        }
        var settings = GatewaySettings(
            servers: servers, tls: tls, token: try token(parsed), lines: try lines(parsed))
        guard !settings.lines.isEmpty || parsed.has(.lines) else {
            throw UsageError("missing --line USER=PLACE, or --lines FILE")
        }
        settings.willUser = parsed[.willTo]
        if let text = parsed[.will] { settings.willText = text }
        if let fault = settings.fault { throw UsageError(fault) }
        return settings
    }

    /// Reads the lines again, on the thread of signals.
    private static func reload(
        _ options: ParsedOptions<GatewayOption>, _ control: GatewayControl
    ) {
        do throws(UsageError) {
            control.setLines(try lines(options, again: true))
        } catch {
            control.keepLines(because: error.message)
        }
    }

    /// The lines of the command line, and those of the file.
    private static func lines(
        _ parsed: ParsedOptions<GatewayOption>, again: Bool = false
    ) throws(UsageError) -> [LineSettings] {
        var lines: [LineSettings] = []
        for text in parsed.all(.line) {
            guard let line = LineSettings(text) else {
                throw UsageError(
                    "--line must be written like plant7-1=/dev/ttyUSB0@115200 or "
                        + "plant7-1/pump=tcp://127.0.0.1:7001, not \"\(text)\"")
            }
            lines.append(line)
        }
        guard let path = parsed[.lines] else { return lines }
        let text = again ? try UsageError.rereading(path) : try UsageError.reading(path)
        do throws(LineFile.Fault) {
            if again { try LineFile.requireComplete(text, path: path) }
            return lines + (try LineFile.lines(text: text, path: path))
        } catch {
            throw UsageError("\(error)")
        }
    }

    /// The file, if one is named: an exported variable of a shell has lower priority.
    private static func token(
        _ parsed: ParsedOptions<GatewayOption>
    ) throws(UsageError) -> String {
        guard let path = parsed[.tokenFile] else {
            return try needed(.token, variable: "MARTLET_TOKEN", in: parsed)
        }
        guard parsed[.token] == nil else {
            throw UsageError("--token and --token-file exclude each other")
        }
        do throws(SecretFileFailure) {
            return try SecretFile.read(path)
        } catch {
            throw UsageError("--token-file: \(error)")
        }
    }

    private static func needed(
        _ option: GatewayOption, variable name: String, in parsed: ParsedOptions<GatewayOption>
    ) throws(UsageError) -> String {
        guard let value = parsed[option] ?? variable(name) else {
            throw UsageError("missing --\(option.rawValue) or \(name)")
        }
        return value
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }
}
