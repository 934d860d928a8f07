// The tool of people and scripts: it sends, listens, mints tokens and looks into a broker.

import Glibc

exit(MartletProgram.runToEnd().rawValue)
