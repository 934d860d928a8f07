// Owns a descriptor while it is being set up: it closes unless it is released.
import CLinuxShims
import Glibc

/// A non-blocking stream socket that closes itself on every path that does not release it.
struct OpenDescriptor: ~Copyable {
    let number: Int32

    init(family: Int32) throws(TransportError) {
        let number = linux_stream_socket(family)
        guard number >= 0 else { throw .system(call: "socket", subject: "", errno: errno) }
        self.number = number
    }

    deinit {
        Glibc.close(number)
    }

    /// Releases the descriptor; the caller must close it.
    consuming func release() -> Int32 {
        let number = number
        discard self
        return number
    }

    func setOption(_ level: Int32, _ name: Int32, to value: Int32) throws(TransportError) {
        var value = value
        guard setsockopt(number, level, name, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
        else {
            throw .system(call: "setsockopt", subject: "\(level)/\(name)", errno: errno)
        }
    }
}
