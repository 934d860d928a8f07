// The simulation as a program: seed after seed, until a property is violated.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
let exitCode = SimulationProgram.run(CommandLine.arguments.dropFirst())
exit(exitCode.afterOutput(of: "martlet-sim").rawValue)
