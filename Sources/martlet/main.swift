// The tool of people and scripts: it sends, listens, mints tokens and looks into a broker.

import Glibc

exit(await MartletProgram.run(CommandLine.arguments.dropFirst()).rawValue)
