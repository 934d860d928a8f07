// The simulation as a program: seed after seed, until a promise is broken.

import Glibc

exit(SimulationProgram.run(CommandLine.arguments.dropFirst()).rawValue)
