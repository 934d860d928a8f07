// Directories for the files of one test.

import Foundation

/// A directory in /tmp that is removed with its owner.
package final class TemporaryDirectory: Sendable {
    package let path: String

    /// - Parameters:
    ///   - name: names the test in what a killed run leaves behind.
    ///   - parent: another place than /tmp.
    package init(_ name: String = "e2e", in parent: String = "/tmp") throws {
        var template = Array("\(parent)/martlet-\(name)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of a file within; of the directory itself for an empty name.
    package func file(_ name: String) -> String { name.isEmpty ? path : "\(path)/\(name)" }
}
