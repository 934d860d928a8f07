// A TCP port of loopback that a program of a test listens on, also when it was killed and is
// started again.

import Foundation

/// A port of 127.0.0.1 and ::1 that the system gives to nobody else while this value exists.
///
/// A port that was merely free a moment ago may be the local port of another test's connection when
/// the program binds it. Here a socket stays bound to it and never listens: the system neither
/// chooses such a port for a connection nor for a bind to port 0, and a program that sets
/// `SO_REUSEADDR`, as servers do, can still listen there (socket(7)). A connection is refused while
/// none does.
package final class ReservedPort: Sendable, CustomStringConvertible {
    package let number: UInt16
    package var description: String { "\(number)" }
    private let descriptors: [Int32]

    /// - Throws: `POSIXError` if there is no port, or no descriptor.
    package init() throws {
        // The port of one family may be taken in the other.
        for _ in 0..<16 {
            let (version4, number) = try Self.bound(AF_INET, 0)
            guard Self.hasVersion6 else {
                (descriptors, self.number) = ([version4], number)
                return
            }
            if let (version6, _) = try? Self.bound(AF_INET6, number) {
                (descriptors, self.number) = ([version4, version6], number)
                return
            }
            close(version4)
        }
        throw POSIXError(.EADDRINUSE)
    }

    deinit { descriptors.forEach { close($0) } }

    private static let hasVersion6: Bool = {
        guard let (descriptor, _) = try? bound(AF_INET6, 0) else { return false }
        close(descriptor)
        return true
    }()

    private static func bound(_ family: Int32, _ port: UInt16) throws -> (Int32, UInt16) {
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, kind, 0)
        guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        var one: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, size)
        setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &one, size)
        var storage = sockaddr_storage()
        var length = socklen_t(0)
        withUnsafeMutablePointer(to: &storage) { storage in
            UnsafeMutableRawPointer(storage).withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                guard family == AF_INET6 else { return }
                $0.pointee.sin6_family = sa_family_t(AF_INET6)
                $0.pointee.sin6_port = port.bigEndian
                $0.pointee.sin6_addr = in6addr_loopback
                length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            }
            UnsafeMutableRawPointer(storage).withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                guard family == AF_INET else { return }
                $0.pointee.sin_family = sa_family_t(AF_INET)
                $0.pointee.sin_port = port.bigEndian
                $0.pointee.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
                length = socklen_t(MemoryLayout<sockaddr_in>.size)
            }
        }
        let isBound = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isBound else {
            let code = errno
            close(descriptor)
            throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO)
        }
        // The port is in the same place in both families.
        let number = withUnsafePointer(to: &storage) {
            UnsafeRawPointer($0).loadUnaligned(fromByteOffset: 2, as: UInt16.self)
        }
        return (descriptor, UInt16(bigEndian: number))
    }
}
