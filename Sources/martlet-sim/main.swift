// The simulation as a program: seed after seed, until a property is violated.

import CommandLineOptions

StandardStream.takeClosed()
let exitCode = SimulationProgram.run(CommandLine.arguments.dropFirst())
exitCode.endProcess(of: "martlet-sim")
