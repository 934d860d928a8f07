// Sends the datagrams that wake devices, to addresses in the networks of the operator only. Names
// are resolved on threads of their own, because the system's resolver blocks.

import BrokerTerms
import Glibc
import MartletClient
import NetTransport
import Relay
import Threads

struct DatagramSender: ~Copyable {
    private let settings: DatagramSettings
    private let returns: PushReturns
    private let version4: Int32
    private let version6: Int32

    init(_ settings: DatagramSettings, returns: PushReturns) {
        self.settings = settings
        self.returns = returns
        let kind = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        version4 = socket(AF_INET, kind, 0)
        version6 = socket(AF_INET6, kind, 0)
    }

    deinit {
        close(version4)
        close(version6)
    }

    /// Host and port of a target; nil if its address is none.
    static func server(of target: PushTarget) -> ServerAddress? {
        try? ServerAddress("tcp://\(target.address)")
    }

    /// Sends one datagram.
    ///
    /// - Parameters:
    ///   - nonce: the same for all datagrams of one wake-up.
    ///   - tag: the result has it, if it is not known at once.
    /// - Returns: the result; nil while the name is resolved.
    func send(_ wake: Wake, nonce: UInt64, tag: UInt64) -> SendOutcome? {
        guard let server = Self.server(of: wake.target) else {
            return .refused("no-address", isFinal: true)
        }
        let bytes = settings.key.datagram(
            user: wake.user, device: wake.target.device, time: wake.time, nonce: nonce)
        if let address = SocketAddress(numericHost: server.host, port: server.port) {
            return Self.send(
                bytes, toOneOf: [address], in: settings.networks, version4: version4,
                version6: version6)
        }
        // Duplicates outlive this value where a lookup does.
        let sockets = (dup(version4), dup(version6))
        let networks = settings.networks
        let returns = returns
        NameLookup.begin(server) { result in
            let outcome: SendOutcome
            switch result {
            case .success(let addresses):
                outcome = Self.send(
                    bytes, toOneOf: addresses, in: networks, version4: sockets.0,
                    version6: sockets.1)
            case .failure:
                outcome = .failed("unknown-host", retryAfterSeconds: 0, isDestination: true)
            }
            close(sockets.0)
            close(sockets.1)
            returns.put(.sent(tag: tag, outcome))
        }
        return nil
    }

    /// Sends to the first address that is in the networks and can be sent to.
    ///
    /// - Parameter addresses: those of one name.
    static func send(
        _ bytes: [UInt8], toOneOf addresses: [SocketAddress], in networks: [IPNetwork],
        version4: Int32, version6: Int32
    ) -> SendOutcome {
        var outcome = SendOutcome.refused("address-not-allowed", isFinal: true)
        for address in addresses {
            guard let ip = address.ipAddress, networks.contain(ip) else { continue }
            let count =
                ip.isVersion4
                ? send(bytes, to: ip, port: address.port, version4: version4)
                : send(bytes, to: ip, port: address.port, version6: version6)
            if count == bytes.count { return .sentOnce }
            outcome = .failed(
                String(cString: strerror(errno)), retryAfterSeconds: 0, isDestination: true)
        }
        return outcome
    }

    private static func send(
        _ bytes: [UInt8], to ip: IPAddress, port: UInt16, version4 descriptor: Int32
    ) -> Int {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = ip.version4.bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(
                    descriptor, bytes, bytes.count, 0, $0,
                    socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private static func send(
        _ bytes: [UInt8], to ip: IPAddress, port: UInt16, version6 descriptor: Int32
    ) -> Int {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        withUnsafeMutableBytes(of: &address.sin6_addr) { room in
            for (index, part) in [ip.high, ip.low].enumerated() {
                withUnsafeBytes(of: part.bigEndian) { bytes in
                    for offset in 0..<8 { room[8 * index + offset] = bytes[offset] }
                }
            }
        }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(
                    descriptor, bytes, bytes.count, 0, $0,
                    socklen_t(MemoryLayout<sockaddr_in6>.size))
            }
        }
    }
}
