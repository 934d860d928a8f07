// The command line tool for people and scripts.

import CommandLineOptions

StandardStream.takeClosed()
MartletProgram.runToEnd().endProcess(of: "martlet")
