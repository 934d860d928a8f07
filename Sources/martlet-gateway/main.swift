// The gateway as a program: parses its options and runs until it is stopped.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
let arguments = CommandLine.arguments.dropFirst()
let exitCode =
    arguments.first == "bridge"
    ? BridgeProgram.run(arguments.dropFirst()) : GatewayProgram.run(arguments)
exit(exitCode.afterOutput(of: "martlet-gateway").rawValue)
