// Lines to standard output and standard error without Foundation or buffering: each line is handed
// to the kernel whole, so that lines of several programs on one terminal do not mix.
import Glibc

/// One of the two streams a program speaks on.
public enum StandardStream: Int32, Sendable {
    /// Results.
    case output = 1
    /// Complaints and progress.
    case error = 2

    /// Writes a text and a line feed, and returns when the kernel has taken all of it.
    ///
    /// - Returns: false if the other end is gone or the device is full; the program may stop
    ///   talking.
    @discardableResult
    public func print(_ text: String) -> Bool {
        var line = text
        line.append("\n")
        return line.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while !rest.isEmpty {
                let count = Glibc.write(rawValue, rest.baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            }
            return true
        }
    }
}
