// The load harness as a program. What it measures and how stands in docs/PERFORMANCE.md.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
let exitCode = BenchProgram.run(CommandLine.arguments.dropFirst())
exit(exitCode.afterOutput(of: "martlet-bench").rawValue)
