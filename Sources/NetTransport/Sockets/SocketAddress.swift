// An IPv4 or IPv6 address with its port as a plain value, and its conversion to and from the
// kernel's sockaddr. It resolves no names; Resolver does.
import BrokerTerms
import CLinuxShims
import Glibc

/// A numeric address and port. A connection over a Unix-domain socket has ``local``.
public struct SocketAddress: Hashable, Sendable {
    enum Family: UInt8 {
        case local
        case version4
        case version6
    }

    let family: Family
    /// In host byte order.
    public let port: UInt16
    /// The interface of a link-local IPv6 address; otherwise 0.
    let scope: UInt32
    /// The address's 16 bytes in network order; IPv4 uses the first four.
    private let high: UInt64
    private let low: UInt64

    /// Bytes 8 to 11 of an IPv4-mapped IPv6 address, `::ffff:a.b.c.d` [RFC 4291, 2.5.5.2].
    private static let mappedPrefix = UInt32(bigEndian: 0xFFFF)

    private init(family: Family, port: UInt16, scope: UInt32, high: UInt64, low: UInt64) {
        self.family = family
        self.port = port
        self.scope = scope
        self.high = high
        self.low = low
    }

    /// The peer of a Unix-domain connection, which has no address.
    public static let local = SocketAddress(family: .local, port: 0, scope: 0, high: 0, low: 0)

    /// Every interface, IPv6 and (dual-stack) IPv4.
    public static func any(port: UInt16) -> SocketAddress {
        SocketAddress(family: .version6, port: port, scope: 0, high: 0, low: 0)
    }

    /// 127.0.0.1.
    public static func loopback(port: UInt16) -> SocketAddress {
        SocketAddress(numericHost: "127.0.0.1", port: port)!
    }

    /// Reads a numeric address such as `192.0.2.1` or `2001:db8::1`; nil for anything else.
    /// ``Resolver`` resolves names.
    public init?(numericHost host: String, port: UInt16) {
        var bytes = (UInt64(0), UInt64(0))
        if inet_pton(AF_INET, host, &bytes) == 1 {
            self.init(family: .version4, port: port, scope: 0, high: bytes.0, low: 0)
        } else if inet_pton(AF_INET6, host, &bytes) == 1 {
            self.init(family: .version6, port: port, scope: 0, high: bytes.0, low: bytes.1)
        } else {
            return nil
        }
    }

    /// An address that a proxy named.
    public init(_ address: IPAddress, port: UInt16) {
        if address.isVersion4 {
            self.init(
                family: .version4, port: port, scope: 0, high: UInt64(address.version4.bigEndian),
                low: 0)
        } else {
            self.init(
                family: .version6, port: port, scope: 0, high: address.high.bigEndian,
                low: address.low.bigEndian)
        }
    }

    /// The address without port and interface; nil for ``local``.
    public var ipAddress: IPAddress? {
        switch family {
        case .local: nil
        case .version4: IPAddress(version4: UInt32(bigEndian: UInt32(truncatingIfNeeded: high)))
        case .version6: IPAddress(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low))
        }
    }

    /// The address with port 0, which is equal for all connections of one host.
    public var withoutPort: SocketAddress {
        SocketAddress(family: family, port: 0, scope: scope, high: high, low: low)
    }

    /// The address as limits count it, without port: all addresses of one IPv6 network of 64 bits,
    /// which a provider gives to one customer, are one.
    public var counted: SocketAddress {
        ipAddress.map { SocketAddress($0.network, port: 0) } ?? withoutPort
    }

    /// True for the address of every interface.
    public var isUnspecified: Bool { family != .local && high == 0 && low == 0 }

    /// Whether the peer is on this machine: 127.0.0.0/8, ::1, or a Unix-domain connection.
    public var isLoopback: Bool {
        switch family {
        case .local: true
        case .version4: UInt8(truncatingIfNeeded: UInt64(littleEndian: high)) == 127
        case .version6: high == 0 && low == UInt64(bigEndian: 1)
        }
    }

    /// The address without its port, as text.
    public var host: String {
        guard family != .local else { return "local" }
        var bytes = (high, low)
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let code = family == .version4 ? AF_INET : AF_INET6
        guard inet_ntop(code, &bytes, &text, socklen_t(text.count)) != nil else {
            preconditionFailure("inet_ntop: \(systemErrorText(errno))")
        }
        return text.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    // MARK: - The kernel's form

    /// The socket family number.
    var familyCode: Int32 {
        switch family {
        case .local: AF_UNIX
        case .version4: AF_INET
        case .version6: AF_INET6
        }
    }

    /// Reads a sockaddr from the kernel or the resolver; ``local`` for families other than IP.
    init(storage: sockaddr_storage) {
        self = withUnsafeBytes(of: storage) { bytes in
            switch Int32(storage.ss_family) {
            case AF_INET:
                let address = bytes.load(as: sockaddr_in.self)
                return SocketAddress(
                    family: .version4, port: UInt16(bigEndian: address.sin_port), scope: 0,
                    high: UInt64(address.sin_addr.s_addr), low: 0)
            case AF_INET6:
                let address = bytes.load(as: sockaddr_in6.self)
                let words = withUnsafeBytes(of: address.sin6_addr) {
                    (
                        $0.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
                        $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
                    )
                }
                let port = UInt16(bigEndian: address.sin6_port)
                if words.0 == 0, UInt32(truncatingIfNeeded: words.1) == Self.mappedPrefix {
                    // A dual-stack listener reports IPv4 peers so. One peer has one address,
                    // whichever listener accepted it.
                    return SocketAddress(
                        family: .version4, port: port, scope: 0, high: words.1 >> 32, low: 0)
                }
                return SocketAddress(
                    family: .version6, port: port, scope: address.sin6_scope_id, high: words.0,
                    low: words.1)
            default:
                return .local
            }
        }
    }

    /// Passes the kernel's form to `body`. Not for ``local``: a Unix-domain socket is named by its
    /// path.
    func withSockaddr<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        var storage = sockaddr_storage()
        let size = withUnsafeMutableBytes(of: &storage) { bytes -> Int in
            switch family {
            case .local:
                preconditionFailure("\(self) has no numeric address")
            case .version4:
                var address = sockaddr_in()
                address.sin_family = sa_family_t(AF_INET)
                address.sin_port = port.bigEndian
                address.sin_addr.s_addr = in_addr_t(truncatingIfNeeded: high)
                bytes.storeBytes(of: address, as: sockaddr_in.self)
                return MemoryLayout<sockaddr_in>.size
            case .version6:
                var address = sockaddr_in6()
                address.sin6_family = sa_family_t(AF_INET6)
                address.sin6_port = port.bigEndian
                address.sin6_scope_id = scope
                withUnsafeMutableBytes(of: &address.sin6_addr) {
                    $0.storeBytes(of: high, as: UInt64.self)
                    $0.storeBytes(of: low, toByteOffset: 8, as: UInt64.self)
                }
                bytes.storeBytes(of: address, as: sockaddr_in6.self)
                return MemoryLayout<sockaddr_in6>.size
            }
        }
        return withUnsafePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(size)) }
        }
    }
}

extension SocketAddress: CustomStringConvertible {
    /// `192.0.2.1:8883`, `[2001:db8::1]:8883` or `local`.
    public var description: String {
        switch family {
        case .local: host
        case .version4: "\(host):\(port)"
        case .version6: "[\(host)]:\(port)"
        }
    }
}
