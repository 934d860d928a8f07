// A listening socket, shared by the loops that accept from it. It accepts nothing itself and knows
// no connections.
import BrokerTerms
import CLinuxShims
import Glibc
import Synchronization

/// The connections that are open of one or more listeners, of all loops together.
public final class OpenConnectionCount: Sendable {
    private let value = Atomic<Int>(0)

    public init() {}

    public var count: Int { value.load(ordering: .relaxed) }

    func enter() { value.add(1, ordering: .relaxed) }
    func leave() { value.subtract(1, ordering: .relaxed) }
}

/// A socket that listens on one address. Give it to one or more loops (`EventLoop.listen(on:)`);
/// the kernel wakes one of them per connection. The socket closes with the last reference.
public final class Listener: Sendable {
    let descriptor: Int32

    /// Its address, with the port that the system chose if 0 was requested.
    public let address: SocketAddress

    /// The TLS context of its connections; nil for plain ones.
    public let tls: ServerTLSContext?

    /// A number of the caller's choice that each connection reports, such as the index in the
    /// configuration's list.
    public let tag: UInt32

    /// Peers that stand between clients and this listener.
    public let proxies: ProxyNetworks

    /// The connections that were accepted and are open. Listeners with one tag share it.
    public let openConnections: OpenConnectionCount

    /// The socket's path in the file system, for a Unix-domain listener.
    public let path: String?

    /// Listens on an IP address. ``SocketAddress/any(port:)`` takes IPv6 and IPv4.
    public init(
        on address: SocketAddress, tls: ServerTLSContext? = nil, tag: UInt32 = 0,
        proxies: ProxyNetworks = ProxyNetworks(), backlog: Int32 = TransportLimits.listenBacklog,
        openConnections: OpenConnectionCount = OpenConnectionCount()
    ) throws(TransportError) {
        let socket = try OpenDescriptor(family: address.familyCode)
        // Without it a restarted broker could not bind until its old connections' TIME-WAIT ends, a
        // minute.
        try socket.setOption(SOL_SOCKET, SO_REUSEADDR, to: 1)
        if address.family == .version6 {
            try socket.setOption(
                Int32(IPPROTO_IPV6), IPV6_V6ONLY, to: address.isUnspecified ? 0 : 1)
        }
        guard address.withSockaddr({ bind(socket.number, $0, $1) }) == 0 else {
            throw .system(call: "bind", subject: address.description, errno: errno)
        }
        guard Glibc.listen(socket.number, backlog) == 0 else {
            throw .system(call: "listen", subject: address.description, errno: errno)
        }
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let named = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(socket.number, $0, &size)
            }
        }
        guard named == 0 else {
            throw .system(call: "getsockname", subject: address.description, errno: errno)
        }
        self.address = SocketAddress(storage: storage)
        self.tls = tls
        self.proxies = proxies
        self.tag = tag
        self.openConnections = openConnections
        path = nil
        descriptor = socket.release()
    }

    /// Listens on a Unix-domain stream socket with mode 0600: only the owner may connect. A socket
    /// that remains at `path` is replaced; any other file there is an error.
    public init(unixPath path: String, tag: UInt32 = 0) throws(TransportError) {
        var information = stat()
        if lstat(path, &information) == 0 {
            guard information.st_mode & S_IFMT == S_IFSOCK else {
                throw .system(call: "bind", subject: path, errno: EEXIST)
            }
            unlink(path)
        }
        let socket = try OpenDescriptor(family: AF_UNIX)
        var address = try unixAddress(path)
        // fchmod before bind sets the mode of the new path: there is no moment with another mode.
        guard fchmod(socket.number, 0o600) == 0 else {
            throw .system(call: "fchmod", subject: path, errno: errno)
        }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket.number, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard bound == 0 else { throw .system(call: "bind", subject: path, errno: errno) }
        guard Glibc.listen(socket.number, TransportLimits.listenBacklog) == 0 else {
            throw .system(call: "listen", subject: path, errno: errno)
        }
        self.address = .local
        tls = nil
        proxies = ProxyNetworks()
        self.tag = tag
        openConnections = OpenConnectionCount()
        self.path = path
        descriptor = socket.release()
    }

    deinit {
        Glibc.close(descriptor)
        if let path { unlink(path) }
    }

    /// What a peer is.
    func role(of peer: SocketAddress) -> PeerRole {
        if proxies.isEmpty { return .client }
        guard let address = peer.ipAddress else { return .client }
        if proxies.headers.contain(address) { return .proxy }
        return proxies.requests.contain(address) ? .forwarder : .client
    }
}

/// The networks whose members pass on connections or requests of clients, and say of whom.
public struct ProxyNetworks: Sendable {
    /// Those whose connections begin with a PROXY header.
    public var headers: [IPNetwork]
    /// Those whose requests of HTTP name the client. The handler reads them, and calls
    /// ``EventLoop/namePeer(_:of:)`` for a connection that becomes one client's.
    public var requests: [IPNetwork]

    public init(headers: [IPNetwork] = [], requests: [IPNetwork] = []) {
        self.headers = headers
        self.requests = requests
    }

    var isEmpty: Bool { headers.isEmpty && requests.isEmpty }
}

/// What a peer of a listener is.
enum PeerRole {
    case client
    /// Its connection begins with a PROXY header.
    case proxy
    /// Its requests may be those of several clients.
    case forwarder
}

/// The kernel's name for a socket's path; an error if it is longer than the maximum of 107 bytes.
private func unixAddress(_ path: String) throws(TransportError) -> sockaddr_un {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
        throw .system(call: "bind", subject: path, errno: ENAMETOOLONG)
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    return address
}
