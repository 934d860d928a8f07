// The broker as a program: parses its command line, starts the runtime, waits for signals, stops
// it.

import BrokerRuntime
import CommandLineOptions
import Configuration
import Glibc

StandardStream.takeClosed()
let exitCode = MartletdProgram.run(CommandLine.arguments.dropFirst())
exit(exitCode.afterOutput(of: "martletd").rawValue)
