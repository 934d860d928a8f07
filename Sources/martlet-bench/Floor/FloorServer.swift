// The floor: the minimal work of a fan-out. The bytes of a publisher in one turn go to every
// subscriber in one write, unchanged; there are no sessions, topics, limits or checks. It
// implements just enough of MQTT 3.1.1 for the load, and trusts its peers; other bytes are ignored
// or forwarded.

import CLinuxShims
import COpenSSL
import Glibc

/// The server of `martlet-bench floor`, for its own thread.
struct FloorServer: ~Copyable {
    private struct Peer {
        var session: OpaquePointer?
        var isShaking: Bool
        var isReceiver = false
        /// The beginning of an incomplete packet.
        var kept: [UInt8] = []
    }

    private let listener: Int32
    private let epoll: Int32
    private let context: OpaquePointer?
    /// By descriptor.
    private var peers: [Peer?] = []
    private var receivers: ContiguousArray<Int32> = []
    private var input = [UInt8](repeating: 0, count: 1 << 18)
    /// The bytes of this turn's publishers.
    private var turn: [UInt8] = []

    /// The longest wait before the thread checks whether it must stop.
    private static let waitMilliseconds: Int32 = 100

    /// Listens on a free port of 127.0.0.1. The port is ``port``.
    ///
    /// - Throws: the reason as text.
    init(certificateFile: String?, keyFile: String?) throws(BenchFailure) {
        let listener = linux_stream_socket(AF_INET)
        self.listener = listener
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard listener >= 0, epoll >= 0, bound == 0, listen(listener, 4096) == 0 else {
            throw BenchFailure("the floor cannot listen: \(String(cString: strerror(errno)))")
        }
        if let certificateFile, let keyFile {
            context = try FloorServer.makeContext(certificateFile, keyFile)
        } else {
            context = nil
        }
        turn.reserveCapacity(1 << 18)
        _ = linux_epoll_set(epoll, EPOLL_CTL_ADD, listener, EPOLLIN.rawValue, UInt64(listener))
    }

    private static func makeContext(
        _ certificateFile: String, _ keyFile: String
    ) throws(BenchFailure) -> OpaquePointer {
        // The broker's preferred suite, so that both do the same arithmetic.
        guard let context = SSL_CTX_new(TLS_server_method()),
            SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1,
            SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1
        else { throw BenchFailure("the floor cannot use \(certificateFile) and \(keyFile)") }
        return context
    }

    var port: UInt16 {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            _ = $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(listener, $0, &size)
            }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    /// Serves until the stop flag is set.
    mutating func run(_ stopFlag: StopFlag) {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: 1024)
        defer { events.deallocate() }
        while !stopFlag.isCancelled {
            let count = epoll_wait(epoll, events, 1024, FloorServer.waitMilliseconds)
            for index in 0..<max(0, Int(count)) {
                let descriptor = Int32(events[index].data.u64)
                if descriptor == listener { accept() } else { read(descriptor) }
            }
            forward()
        }
        for descriptor in peers.indices where peers[descriptor] != nil { drop(Int32(descriptor)) }
        SSL_CTX_free(context)
        Glibc.close(epoll)
        Glibc.close(listener)
    }

    // MARK: - Fan-out

    /// One write to each subscriber.
    private mutating func forward() {
        guard !turn.isEmpty else { return }
        turn.withUnsafeBytes { bytes in
            for receiver in receivers { send(bytes, to: receiver) }
        }
        turn.removeAll(keepingCapacity: true)
    }

    private func send(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) {
        var rest = bytes
        while !rest.isEmpty {
            let count: Int
            if let session = peers[Int(descriptor)]?.session {
                count = Int(SSL_write(session, rest.baseAddress, Int32(rest.count)))
            } else {
                count = Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            } else {
                // Peers of the floor always read, so waiting for one delays nobody for long.
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard poll(&wait, 1, 1000) == 1, wait.revents & Int16(POLLERR | POLLHUP) == 0
                else { return }
            }
        }
    }

    // MARK: - Peers

    private mutating func accept() {
        while true {
            let descriptor = linux_accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            var one: Int32 = 1
            setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one,
                socklen_t(MemoryLayout<Int32>.size))
            var session: OpaquePointer?
            if let context {
                session = SSL_new(context)
                SSL_set_fd(session, descriptor)
                SSL_set_accept_state(session)
            }
            while peers.count <= Int(descriptor) { peers.append(nil) }
            peers[Int(descriptor)] = Peer(session: session, isShaking: session != nil)
            _ = linux_epoll_set(
                epoll, EPOLL_CTL_ADD, descriptor, EPOLLIN.rawValue, UInt64(descriptor))
        }
    }

    private mutating func read(_ descriptor: Int32) {
        let session = peers[Int(descriptor)]!.session
        if peers[Int(descriptor)]!.isShaking {
            guard SSL_do_handshake(session) == 1 else { return }
            peers[Int(descriptor)]!.isShaking = false
        }
        repeat {
            let count = input.withUnsafeMutableBytes { buffer in
                session == nil
                    ? recv(descriptor, buffer.baseAddress, buffer.count, 0)
                    : Int(SSL_read(session, buffer.baseAddress, Int32(buffer.count)))
            }
            guard count > 0 else {
                let isEnd =
                    session == nil
                    ? count == 0 : SSL_get_error(session, Int32(count)) == SSL_ERROR_ZERO_RETURN
                if isEnd { drop(descriptor) }
                return
            }
            // Subscribers send only acknowledgements.
            if !peers[Int(descriptor)]!.isReceiver { take(count, from: descriptor) }
        } while session != nil && SSL_has_pending(session) == 1
    }

    private mutating func drop(_ descriptor: Int32) {
        SSL_free(peers[Int(descriptor)]?.session)
        peers[Int(descriptor)] = nil
        receivers.removeAll { $0 == descriptor }
        Glibc.close(descriptor)
    }

    // MARK: - Packets

    /// Answers requests and collects the bytes to forward.
    private mutating func take(_ count: Int, from descriptor: Int32) {
        var bytes = peers[Int(descriptor)]!.kept
        bytes += input[..<count]
        var offset = 0
        while let end = endOfPacket(in: bytes, at: offset) {
            switch bytes[offset] {
            case 0x10:
                answer([0x20, 2, 0, 0], to: descriptor)
            case 0x82:
                answer([0x90, 3, 0, 1, bytes[end - 1]], to: descriptor)
                peers[Int(descriptor)]!.isReceiver = true
                receivers.append(descriptor)
            case 0x30:
                turn += bytes[offset..<end]
            case 0x32:
                turn += bytes[offset..<end]
                confirm(bytes[offset..<end], to: descriptor)
            default:
                break
            }
            offset = end
        }
        peers[Int(descriptor)]!.kept = Array(bytes[offset...])
    }

    private func answer(_ packet: [UInt8], to descriptor: Int32) {
        packet.withUnsafeBytes { send($0, to: descriptor) }
    }

    /// A PUBACK with the publication's packet identifier, which follows its topic.
    private func confirm(_ publication: ArraySlice<UInt8>, to descriptor: Int32) {
        let body = publication.drop { $0 == 0x32 }.drop { $0 >= 0x80 }.dropFirst()
        guard body.count >= 2 else { return }
        let topicByteCount = Int(body[body.startIndex]) << 8 | Int(body[body.startIndex + 1])
        let identifier = body.startIndex + 2 + topicByteCount
        guard identifier + 1 < body.endIndex else { return }
        answer([0x40, 2, body[identifier], body[identifier + 1]], to: descriptor)
    }

    private func endOfPacket(in bytes: [UInt8], at start: Int) -> Int? {
        var length = 0
        for digit in 0..<4 {
            let offset = start + 1 + digit
            guard offset < bytes.count else { return nil }
            length |= Int(bytes[offset] & 0x7F) << (7 * digit)
            guard bytes[offset] >= 0x80 else {
                let end = offset + 1 + length
                return end <= bytes.count ? end : nil
            }
        }
        // Not a packet of the load: it is ignored.
        return bytes.count
    }
}
