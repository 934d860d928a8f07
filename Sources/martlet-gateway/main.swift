// The gateway as a program: reads its options, runs until it is told to stop.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
let arguments = CommandLine.arguments.dropFirst()
let exitCode =
    arguments.first == "bridge"
    ? BridgeProgram.run(arguments.dropFirst()) : GatewayProgram.run(arguments)
exit(exitCode.afterOutput(of: "martlet-gateway").rawValue)
