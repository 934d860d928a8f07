// The program `martlet-gateway push`, from its arguments to its exit code.

import CommandLineOptions
import Files
import Glibc
import Push
import Relay

enum PushOption: String, OptionRules {
    case config
    case checkConfig = "check-config"
    case resend
    case user
    case device
    case kind
    case push
    case help

    var shape: OptionShape {
        switch self {
        case .config, .resend, .user, .device, .kind, .push: .value
        case .checkConfig, .help: .flag
        }
    }

    static let helpPage = """
        martlet-gateway push: wakes users of whom no device is connected

        Usage: martlet-gateway push --config=FILE [--check-config]
               martlet-gateway push log --config=FILE [--user=USER]
               martlet-gateway push dead-letters --config=FILE [--resend=NUMBER|all]
               martlet-gateway push try-template --config=FILE [--kind=KIND] [--push=JSON]
               martlet-gateway push device-key --config=FILE --user=USER [--device=DEVICE]

          --config=FILE    the broker, the providers and the templates, as JSON5
          --check-config   check the file and exit
          --user=USER      log: only this user's targets; device-key: whose key
          --resend=NUMBER  send a dead letter again, or all of them
          --kind=KIND      only the content for this kind: webhook, apns, fcm, sms-webhook, mqtt
          --push=JSON      what a sender gives; it comes before the template
          --device=DEVICE  the device whose key is printed (default: the user without a device)
          -h, --help       print this page and exit

        A file to begin with:

          {
            martlet: { server: "tls://broker.example:8883", tokenFile: "push.token" },
            stateFile: "/var/lib/martlet-push/state",
            apns: { keyFile: "AuthKey.p8", keyId: "ABC1234567", teamId: "DEF1234567",
                    topic: "example.app" },
            fcm: { serviceAccountFile: "service-account.json" },
            webhook: { secretFiles: ["wake.secret"] },
            templates: {
              apns: { alert: "${count} new in ${convId}", badge: "increment" },
            },
          }

        The broker asks for a wake-up when a message waits for a user of whom no device is
        connected. The relay sends it to the targets of the user: to Apple, to Firebase, to a URL,
        to a service for text messages, to a topic of another MQTT broker, or as a datagram. Each
        accepted wake-up is sent at least once within its validity, also after a kill.

        Martlet's token may also be in MARTLET_TOKEN. log, dead-letters and try-template work while
        the relay runs. After SIGTERM, SIGINT or SIGHUP the relay waits for open attempts and
        stops; a second SIGTERM or SIGINT stops it at once. SIGUSR1 writes a line of counters.
        docs/operating/push.md lists all keys and the guarantees.
        """
}

enum PushProgram {
    private static let verbs = ["log", "dead-letters", "try-template", "device-key"]

    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        var arguments = arguments
        let verb = arguments.first.flatMap { verbs.contains($0) ? $0 : nil }
        if verb != nil { arguments.removeFirst() }
        do throws(UsageError) {
            switch try OptionParser<PushOption>.parse(arguments) {
            case .help:
                StandardStream.output.print(PushOption.helpPage)
                return .success
            case .run(let parsed): return try run(verb, parsed)
            }
        } catch {
            StandardStream.error.print(
                "martlet-gateway push: \(error.message)\nSee martlet-gateway push --help")
            return .usage
        }
    }

    /// Options that only some of the verbs have.
    private static let verbsOfOptions: [(PushOption, [String])] = [
        (.resend, ["dead-letters"]), (.user, ["log", "device-key"]), (.device, ["device-key"]),
        (.kind, ["try-template"]), (.push, ["try-template"]),
    ]

    private static func run(
        _ verb: String?, _ parsed: ParsedOptions<PushOption>
    ) throws(UsageError) -> ExitCode {
        let path = try parsed.required(.config)
        for (option, verbs) in verbsOfOptions
        where parsed.has(option) && !verbs.contains(verb ?? "") {
            throw UsageError(
                "--\(option.rawValue) is an option of push \(verbs.joined(separator: " and "))")
        }
        let settings = try PushFile.settings(
            text: try UsageError.reading(path), path: path,
            token: getenv("MARTLET_TOKEN").map { String(cString: $0) })
        if parsed.has(.checkConfig) {
            StandardStream.output.print("the configuration is valid")
            return .success
        }
        let program = RelayProgram(name: "push")
        switch verb {
        case "log":
            return program.print { () throws(RecordFailure) in
                try PushQuestions.log(settings, user: parsed[.user])
            }
        case "dead-letters":
            guard let text = parsed[.resend] else {
                return program.print { () throws(RecordFailure) in
                    try PushQuestions.deadLetters(settings)
                }
            }
            return try program.resend(text, missing: "there is no such dead letter") {
                number throws(RecordFailure) in
                try PushQuestions.resend(settings, number: number)
            }
        case "try-template":
            let lines = try PushQuestions.sample(
                settings, kind: parsed[.kind], push: parsed[.push])
            for line in lines { StandardStream.output.print(line) }
            return .success
        case "device-key":
            let key = PushQuestions.deviceKey(
                settings, user: try parsed.required(.user), device: parsed[.device] ?? "")
            guard let key else { throw UsageError("\(path) has no section udp") }
            StandardStream.output.print(key)
            return .success
        default:
            return program.run { control throws(RelayFailure) in
                try PushProcess.run(settings, control)
            }
        }
    }
}
