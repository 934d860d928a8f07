// The program `martlet-gateway webhook`, from its arguments to its exit code.

import CommandLineOptions
import Files
import Glibc
import Relay
import Webhooks

enum WebhookOption: String, OptionRules {
    case config
    case checkConfig = "check-config"
    case resend
    case help

    var shape: OptionShape {
        switch self {
        case .config, .resend: .value
        case .checkConfig, .help: .flag
        }
    }

    static let helpPage = """
        martlet-gateway webhook: HTTP requests for what an ordinary client of Martlet receives

        Usage: martlet-gateway webhook --config=FILE [--check-config]
               martlet-gateway webhook dead-letters --config=FILE [--resend=NUMBER|all]

          --config=FILE    the broker and the hooks, as JSON5
          --check-config   check the file and exit
          --resend=NUMBER  send a dead letter again; all: all of them, and what disabled hooks have
          -h, --help       print this page and exit

        A file to begin with:

          {
            martlet: { server: "tls://broker.example:8883", tokenFile: "webhook.token" },
            stateFile: "/var/lib/martlet-webhook/state",
            hooks: [
              {
                name: "orders",
                url: "https://shop.example/hooks/martlet",
                secretFiles: ["orders.secret"],
                kinds: ["message.user", "receipt"],
                topics: ["plant/+/alarm"],
              },
            ],
          }

        deciders: [{ name, url, secretFiles, silent: "refuse" }] names endpoints that decide on the
        messages of an app of which the relay's user is the moderator: they answer
        {"verdict":"accept"}, {"verdict":"refuse","code":-4408,"reason":"…"} or
        {"verdict":"rewrite","b":"…"} in time, or the verdict of silent holds.

        Each request is one of Standard Webhooks: webhook-id, webhook-timestamp and
        webhook-signature, and a JSON body with type, timestamp and data. Events are delivered at
        least once, and in order for each sender, group or topic.

        Martlet's token may also be in MARTLET_TOKEN. dead-letters prints the events that could not
        be delivered, also while the relay runs. After SIGTERM, SIGINT or SIGHUP the relay waits for
        open requests and stops; a second SIGTERM or SIGINT stops it at once. No event is lost by
        that or by a kill. SIGUSR1 writes a line of counters. docs/operating/webhooks.md lists all
        keys and the guarantees.
        """
}

enum WebhookProgram {
    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        var arguments = arguments
        let isForDeadLetters = arguments.first == "dead-letters"
        if isForDeadLetters { arguments.removeFirst() }
        do throws(UsageError) {
            switch try OptionParser<WebhookOption>.parse(arguments) {
            case .help:
                StandardStream.output.print(WebhookOption.helpPage)
                return .success
            case .run(let parsed):
                let path = try parsed.required(.config)
                if parsed.has(.resend), !isForDeadLetters {
                    throw UsageError("--resend is an option of webhook dead-letters")
                }
                let settings = try WebhookFile.settings(
                    text: try UsageError.reading(path), path: path,
                    token: getenv("MARTLET_TOKEN").map { String(cString: $0) })
                if parsed.has(.checkConfig) {
                    StandardStream.output.print("the configuration is valid")
                    return .success
                }
                let program = RelayProgram(name: "webhook")
                guard isForDeadLetters else {
                    return program.run { control throws(RelayFailure) in
                        try WebhookProcess.run(settings, control)
                    }
                }
                guard let text = parsed[.resend] else {
                    return program.print { () throws(RecordFailure) in
                        try WebhookDeadLetters.list(settings)
                    }
                }
                return try program.resend(
                    text, missing: "there is no such dead letter of a hook of this file"
                ) { number throws(RecordFailure) in
                    try WebhookDeadLetters.resend(settings, number: number)
                }
            }
        } catch {
            StandardStream.error.print(
                "martlet-gateway webhook: \(error.message)\nSee martlet-gateway webhook --help")
            return .usage
        }
    }
}
