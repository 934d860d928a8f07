// Whether tests run under a sanitizer (`make sanitize`).

import Foundation

package enum Sanitizer {
    /// The runtime of the address or the thread sanitizer is in this process, and in the programs
    /// of the same build.
    package static let isThere = (["__asan_init", "__tsan_init"] as [String]).contains {
        dlsym(nil, $0) != nil
    }

    /// How many times longer than its usual bound a test waits before it gives up. A wait ends with
    /// the event it is for, so only failures meet the bound, and a busy machine must not reach it.
    /// Programs under the thread sanitizer take five to fifteen times as long.
    package static let patience = isThere ? 8 : 3

    /// How many times longer something may take where the time itself is what a test checks.
    package static let slowdown = isThere ? 8 : 1

    /// What a child is told of it: where reports go to, and what is not reported.
    package static let environment = ProcessInfo.processInfo.environment.filter { name, _ in
        ["TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS"].contains(name)
    }
}
