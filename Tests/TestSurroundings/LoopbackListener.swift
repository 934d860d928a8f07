// The listening socket of a test's own server.

import Foundation

/// A TCP socket that listens on 127.0.0.1, at a port that the system chooses. Its owner closes it.
package struct LoopbackListener: Sendable {
    package let descriptor: Int32
    package let port: UInt16

    package init(backlog: Int32 = 64, isNonBlocking: Bool = false) throws {
        let kind = Int32(SOCK_STREAM.rawValue) | (isNonBlocking ? Int32(SOCK_NONBLOCK.rawValue) : 0)
        let listener = socket(AF_INET, kind, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, backlog) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        guard isListening else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        descriptor = listener
        port = UInt16(bigEndian: address.sin_port)
    }
}
