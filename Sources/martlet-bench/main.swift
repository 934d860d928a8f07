// The load harness as a program. docs/PERFORMANCE.md describes its measurements.

import CommandLineOptions

StandardStream.takeClosed()
let exitCode = BenchProgram.run(CommandLine.arguments.dropFirst())
exitCode.endProcess(of: "martlet-bench")
