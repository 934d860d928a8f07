// The load harness as a program. What it measures and how stands in docs/PERFORMANCE.md.

import CommandLineOptions
import Glibc

exit(BenchProgram.run(CommandLine.arguments.dropFirst()).rawValue)
