// The programs of the same build that these tests start.
import Foundation

enum Programs {
    static let folder = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent()
}
