// The tool of people and scripts: it sends, listens, mints tokens and looks into a broker.

import CommandLineOptions
import Glibc

StandardStream.takeClosed()
exit(MartletProgram.runToEnd().rawValue)
