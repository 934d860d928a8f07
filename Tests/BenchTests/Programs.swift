// The programs that these tests start: those of the same build, whatever it was built with.
import Foundation

enum Programs {
    static let folder = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent()

    /// They run under the address or the thread sanitizer (`make sanitize`).
    static let areSanitized = (["__asan_init", "__tsan_init"] as [String]).contains {
        dlsym(nil, $0) != nil
    }
}
