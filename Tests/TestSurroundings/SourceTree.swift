// The path of the sources from which the tests were compiled, for tests that read files of the
// tree.

import Foundation

package enum SourceTree {
    /// The directory with Package.swift.
    package static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
}
