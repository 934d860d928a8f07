// The programs that these tests start: those of the same build, whatever it was built with.
import Foundation

enum Programs {
    static let folder = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent()
}
