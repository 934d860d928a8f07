// The command line tool for people and scripts.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
exit(MartletProgram.runToEnd().rawValue)
