// Complete transfers through a file descriptor: one system call may transfer less than requested.

import Glibc

/// The error of a system call on a file.
public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The number, as in errno(3).
    public let code: Int32

    public init(code: Int32) { self.code = code }

    /// The last error of this thread.
    public static var last: SystemError { SystemError(code: errno) }

    public var description: String { String(cString: strerror(code)) }
}

/// Reads and writes complete contents.
public enum DescriptorIO {
    /// Everything up to the end of the file, but at most `byteCountMaximum` bytes.
    public static func read(
        from descriptor: Int32, byteCountMaximum: Int
    ) throws(SystemError) -> [UInt8] {
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(byteCountMaximum, 65_536))
        while content.count < byteCountMaximum {
            let wanted = min(chunk.count, byteCountMaximum - content.count)
            let count = Glibc.read(descriptor, &chunk, wanted)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .last }
            if count == 0 { break }
            content += chunk[..<count]
        }
        return content
    }

    /// Writes all bytes, and returns when the system has accepted them.
    public static func write(
        _ bytes: some Sequence<UInt8>, to descriptor: Int32
    ) throws(SystemError) {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                // Another process made the terminal or the pipe non-blocking.
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&wait, 1, -1)
                continue
            }
            guard count > 0 else { throw count < 0 ? .last : SystemError(code: EIO) }
            rest = rest.dropFirst(count)
        }
    }
}
