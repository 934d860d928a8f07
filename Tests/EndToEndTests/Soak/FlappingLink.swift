// A TCP relay between clients and a broker that is cut at intervals, at any byte, like the networks
// of a fleet.

import Foundation
import Synchronization

/// Forwards connections from a port of its own to another one, until they are cut.
final class FlappingLink: Sendable {
    /// Where clients connect to.
    let port: UInt16
    private let cutCount = Atomic(0)
    private let isOver = Atomic(false)

    init(to target: UInt16) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0
                    && getsockname(listener, $0, &length) == 0
            }
        }
        guard isListening else { throw TestFailure("a link: \(errno)") }
        port = UInt16(bigEndian: address.sin_port)
        Thread { [self] in
            var lines: [Line] = []
            var cutsDone = 0
            while !isOver.load(ordering: .relaxed) {
                Self.turn(listener, target, &lines)
                let cuts = cutCount.load(ordering: .relaxed)
                guard cuts != cutsDone else { continue }
                lines.forEach { $0.close() }
                lines.removeAll()
                cutsDone = cuts
            }
            lines.forEach { $0.close() }
            close(listener)
        }.start()
    }

    /// Ends every connection that there is; new ones are let through.
    func cut() { cutCount.add(1, ordering: .relaxed) }

    /// Ends them and takes no more.
    func end() { isOver.store(true, ordering: .relaxed) }

    // MARK: - The thread

    /// One client's connection and the broker's, and what was read from each for the other.
    private struct Line {
        var ends: [Int32]
        var pending: [[UInt8]] = [[], []]

        /// Shut down first: a broker that is started at this moment has the descriptors too, and
        /// would keep the line open; its client would not notice before its keep-alive.
        func close() {
            for end in ends {
                shutdown(end, Int32(SHUT_RDWR))
                _ = Foundation.close(end)
            }
        }
    }

    /// Waits at most 10 ms for something to forward, and forwards it.
    private static func turn(_ listener: Int32, _ target: UInt16, _ lines: inout [Line]) {
        var polled = [pollfd(fd: listener, events: Int16(POLLIN), revents: 0)]
        for line in lines {
            for end in 0..<2 {
                // A side is read again when the other one has taken what came before.
                let reads = line.pending[1 - end].isEmpty ? POLLIN : 0
                let writes = line.pending[end].isEmpty ? 0 : POLLOUT
                polled.append(
                    pollfd(fd: line.ends[end], events: Int16(reads | writes), revents: 0))
            }
        }
        guard poll(&polled, nfds_t(polled.count), 10) > 0 else { return }
        for index in lines.indices.reversed() {
            let isReady = (0..<2).map { polled[1 + index * 2 + $0].revents != 0 }
            if isReady.contains(true), !forward(&lines[index], isReady) {
                lines.remove(at: index).close()
            }
        }
        if polled[0].revents != 0, let line = accepted(listener, target) { lines.append(line) }
    }

    /// - Returns: false where one side has ended.
    private static func forward(_ line: inout Line, _ isReady: [Bool]) -> Bool {
        for end in 0..<2 {
            let other = 1 - end
            if isReady[end], line.pending[other].isEmpty {
                var chunk = [UInt8](repeating: 0, count: 16_384)
                let count = recv(line.ends[end], &chunk, chunk.count, Int32(MSG_DONTWAIT))
                if count == 0 || (count < 0 && errno != EAGAIN) { return false }
                if count > 0 { line.pending[other] = Array(chunk[..<count]) }
            }
            guard !line.pending[other].isEmpty else { continue }
            let flags = Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)
            let bytes = line.pending[other]
            let count = send(line.ends[other], bytes, bytes.count, flags)
            if count < 0, errno != EAGAIN { return false }
            if count > 0 { line.pending[other].removeFirst(count) }
        }
        return true
    }

    /// A client's connection with one of its own to the target; nil where nobody listens there.
    private static func accepted(_ listener: Int32, _ target: UInt16) -> Line? {
        let client = accept(listener, nil, nil)
        guard client >= 0 else { return nil }
        let broker = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let line = Line(ends: [client, broker])
        var address = loopback(port: target)
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(broker, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else {
            line.close()
            return nil
        }
        return line
    }

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }
}
