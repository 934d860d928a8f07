// Where the sources are that the tests were compiled from, for tests that read files of the tree.

import Foundation

package enum SourceTree {
    /// The directory with Package.swift.
    package static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
}
