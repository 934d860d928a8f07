// A TCP socket without a protocol: it sends the given bytes, does not wait, and reads only on
// request. For attackers, which use 127.0.0.2, so that limits by address do not affect the others.

import Glibc
import TestSurroundings

/// One connection of an attacker; nothing here waits.
final class RawSocket {
    private let descriptor: Int32

    /// Connects to 127.0.0.1, from 127.0.0.2 if nothing else is named.
    init(port: UInt16, from source: UInt32 = 0x7F00_0002) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw TestFailure("socket: \(errno)") }
        var own = Self.address(source, port: 0)
        var broker = Self.address(0x7F00_0001, port: port)
        // Ports are chosen at connect, as many as there are for each pair of ends.
        var yes: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_IP), 24 /* IP_BIND_ADDRESS_NO_PORT */, &yes,
            socklen_t(MemoryLayout<Int32>.size))
        guard Self.call(Glibc.bind, descriptor, &own) == 0,
            Self.call(Glibc.connect, descriptor, &broker) == 0
        else {
            // `deinit` closes: all fields have their values.
            throw TestFailure("connect: \(errno)")
        }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    deinit { Glibc.close(descriptor) }

    /// Its end will be a reset, as some load balancers end their checks.
    func resetsAtEnd() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    private static func address(_ host: UInt32, port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = host.bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    private static func call(
        _ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ descriptor: Int32,
        _ address: inout sockaddr_in
    ) -> Int32 {
        withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// Bytes that the kernel took; 0 where its buffer is full, nil where the connection is over.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Int? {
        let count = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        if count >= 0 { return count }
        return errno == EAGAIN ? 0 : nil
    }

    /// Everything that the broker says until it ends the connection, or says nothing for a minute.
    func readToEnd() -> [UInt8] {
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count > 0 { text += chunk[..<count] }
            if count == 0 { return text }
            guard count < 0 else { continue }
            guard errno == EAGAIN else { return text }
            var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&wait, 1, 60_000) > 0 else { return text }
        }
    }

    /// Whether the broker has ended the connection. Throws away what it has said.
    var isClosed: Bool {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count > 0 { continue }
            return count == 0 || (errno != EAGAIN && errno != EINTR)
        }
    }
}

/// Waits, without keeping others from the processor, until a condition holds.
func eventually(
    within seconds: Double = 45, _ what: String, _ isDone: () throws -> Bool
) async throws {
    let end = ContinuousClock.now + .seconds(seconds * Double(Sanitizer.patience))
    while try !isDone() {
        if ContinuousClock.now > end { throw TestFailure("\(seconds) s passed without \(what)") }
        await Deadline(seconds: 0.005).wait()
    }
}
