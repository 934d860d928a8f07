// The text of a configuration that a command line names.

import CommandLineOptions
import Files
import Glibc

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

    /// The same on the thread of signals, which must not wait for a writer: then no signal would
    /// end the program.
    static func rereading(_ path: String) throws(UsageError) -> [UInt8] {
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw UsageError("\(path) is no regular file, and is not read again")
        }
        return try reading(path)
    }
}
