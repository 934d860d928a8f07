// The text of a configuration that a command line names.

import CommandLineOptions
import Files

extension UsageError {
    /// The bytes of a file.
    ///
    /// - Throws: the path and the system's reason, if it cannot be read.
    static func reading(_ path: String) throws(UsageError) -> [UInt8] {
        do throws(FileFailure) {
            return try SmallFile.read(path)
        } catch {
            throw UsageError("\(path) cannot be read: \(error)")
        }
    }
}
