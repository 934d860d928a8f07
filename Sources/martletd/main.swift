// The broker as a program: parses its command line, starts the runtime, waits for signals, stops
// it.

import BrokerRuntime
import CommandLineOptions
import Configuration

StandardStream.takeClosed()
let exitCode = MartletdProgram.run(CommandLine.arguments.dropFirst())
exitCode.endProcess(of: "martletd")
