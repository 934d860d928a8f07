// Directories for the files of one test.

import Foundation

/// A directory in /tmp that is removed with its owner.
package final class TemporaryDirectory: Sendable {
    package let path: String

    /// - Parameters:
    ///   - name: names the test in directories that a killed run leaves.
    ///   - parent: another place than /tmp.
    package init(_ name: String = "e2e", in parent: String = "/tmp") throws {
        path = try Self.make(name, in: parent)
    }

    /// Makes a directory that its owner removes.
    package static func make(_ name: String, in parent: String = "/tmp") throws -> String {
        var template = Array("\(parent)/martlet-\(name)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
        return template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of a file within; of the directory itself for an empty name.
    package func file(_ name: String) -> String { name.isEmpty ? path : "\(path)/\(name)" }
}
