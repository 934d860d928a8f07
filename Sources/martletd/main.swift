// The broker as a program: reads its command line, starts the runtime, waits for signals, stops it.

import BrokerRuntime
import CommandLineOptions
import Configuration
import Glibc

let exitCode = MartletdProgram.run(CommandLine.arguments.dropFirst())
exit(exitCode.afterOutput(of: "martletd").rawValue)
