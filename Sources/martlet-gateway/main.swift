// The gateway as a program: parses its options and runs until it is stopped.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
// Scripts send them to daemons, to rotate log files; this one writes to standard error.
for number in [SIGUSR1, SIGUSR2] { signal(number, SIG_IGN) }
let arguments = CommandLine.arguments.dropFirst()
let exitCode =
    switch arguments.first {
    case "bridge": BridgeProgram.run(arguments.dropFirst())
    case "webhook": WebhookProgram.run(arguments.dropFirst())
    case "push": PushProgram.run(arguments.dropFirst())
    default: GatewayProgram.run(arguments)
    }
exitCode.endProcess(of: "martlet-gateway")
