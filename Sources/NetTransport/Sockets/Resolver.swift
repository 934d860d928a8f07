// Resolves names to addresses. It blocks, so it must not be called on an event loop's thread.
import Glibc

/// The system's name resolution.
public enum Resolver {
    /// Every stream address of `host`, in the order in which the system advises to try them. A
    /// numeric host needs no name server. Blocks for as long as the system's resolver does.
    public static func resolve(
        host: String, port: UInt16
    ) throws(TransportError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var head: UnsafeMutablePointer<addrinfo>?
        let failure = getaddrinfo(host, String(port), &hints, &head)
        guard failure == 0 else {
            throw .address(host, detail: String(cString: gai_strerror(failure)))
        }
        defer { freeaddrinfo(head) }

        var addresses: [SocketAddress] = []
        var entry = head
        while let info = entry?.pointee {
            var storage = sockaddr_storage()
            withUnsafeMutableBytes(of: &storage) { target in
                target.copyMemory(
                    from: UnsafeRawBufferPointer(
                        start: info.ai_addr, count: Int(info.ai_addrlen)))
            }
            let address = SocketAddress(storage: storage)
            if address != .local, !addresses.contains(address) { addresses.append(address) }
            entry = info.ai_next
        }
        guard !addresses.isEmpty else {
            throw .address(host, detail: "has no IPv4 or IPv6 address")
        }
        return addresses
    }
}
