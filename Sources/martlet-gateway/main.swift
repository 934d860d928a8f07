// The gateway as a program: reads its options, runs until it is told to stop.

import Glibc

exit(GatewayProgram.run(CommandLine.arguments.dropFirst()).rawValue)
