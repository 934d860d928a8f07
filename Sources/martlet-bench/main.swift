// The load harness as a program. docs/PERFORMANCE.md describes its measurements.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
let exitCode = BenchProgram.run(CommandLine.arguments.dropFirst())
exit(exitCode.afterOutput(of: "martlet-bench").rawValue)
