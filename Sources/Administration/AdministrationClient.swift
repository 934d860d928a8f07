// The client of the administration socket, for the command line. Its calls block.
import Glibc

/// Why a request got no reply.
public enum AdministrationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// No broker listens at this path: it is not running, or has another data directory.
    case notRunning(path: String)
    /// No connection to the HTTP API of this server.
    case unreachable(server: String, reason: String)
    /// What listens there is no HTTP API: it answered with this status.
    case noAPI(server: String, status: Int)
    /// The broker refused the request.
    case refused(AdministrationRefusal)
    /// The connection closed before the end of the reply.
    case closed
    /// The broker did not answer within ``AdministrationClient/answerSecondsMaximum``.
    case timedOut
    /// The received line is not a reply.
    case malformedReply(String)
    /// A system call failed with this errno: for EACCES, the socket is another user's.
    case system(call: String, path: String, code: Int32)

    public var description: String {
        switch self {
        case .notRunning(let path): "no broker listens at \(path)"
        case .unreachable(let server, let reason): "no connection to \(server): \(reason)"
        case .noAPI(let server, let status):
            "\(server) does not serve the HTTP API (HTTP status \(status))"
        case .refused(let refusal): refusal.message
        case .closed: "the broker closed the connection without an answer"
        case .timedOut: "the broker did not answer in time"
        case .malformedReply(let reason): "the broker's answer cannot be read: \(reason)"
        case .system(let call, let path, let code):
            "\(call) \(path): \(String(cString: strerror(code)))"
        }
    }
}

/// A connection to a broker's administration socket. One request at a time.
public struct AdministrationClient: ~Copyable {
    private let descriptor: Int32
    private let path: String

    /// A commit on a busy disk takes a second; a broker that does not answer for this long is
    /// stuck.
    public static let answerSecondsMaximum = 60

    /// Connects to the broker that runs on a data directory.
    public init(dataDirectory: String) throws(AdministrationError) {
        try self.init(socketPath: "\(dataDirectory)/\(AdministrationLine.socketName)")
    }

    /// Connects to a socket.
    public init(socketPath path: String) throws(AdministrationError) {
        descriptor = try Self.connectedSocket(path)
        self.path = path
    }

    deinit { close(descriptor) }

    /// Makes a request and waits for its reply.
    public func send<Request: AdministrationRequest>(
        _ request: Request
    ) throws(AdministrationError) -> Request.Reply {
        switch try send(all: [request])[0] {
        case .success(let reply): return reply
        case .failure(let refusal): throw .refused(refusal)
        }
    }

    /// Makes requests and waits for their replies, which come in the same order. Messages among
    /// them share a commit.
    ///
    /// - Parameter requests: at most ``AdministrationLine/requestsTogetherMaximum``.
    public func send<Request: AdministrationRequest>(
        all requests: [Request]
    ) throws(AdministrationError) -> [Result<Request.Reply, AdministrationRefusal>] {
        precondition(
            requests.count <= AdministrationLine.requestsTogetherMaximum,
            "\(requests.count) requests at a time")
        var bytes: [UInt8] = []
        for request in requests { bytes += request.line }
        try write(bytes)
        var results: [Result<Request.Reply, AdministrationRefusal>] = []
        for line in try readLines(requests.count) { results.append(try Self.reply(in: line)) }
        return results
    }

    private static func reply<Reply: Codable>(
        in line: [UInt8]
    ) throws(AdministrationError) -> Result<Reply, AdministrationRefusal> {
        do {
            let reply = try AdministrationLine.decode(
                AdministrationLine.ReplyLine<Reply>.self, from: line)
            if let refusal = reply.refusal { return .failure(refusal) }
            guard let body = reply.reply else {
                throw AdministrationError.malformedReply("neither reply nor refusal")
            }
            return .success(body)
        } catch let error as AdministrationError {
            throw error
        } catch let error as AdministrationRefusal {
            throw .malformedReply(error.message)
        } catch {
            preconditionFailure("unexpected error of the decoder: \(error)")
        }
    }

    private func write(_ bytes: [UInt8]) throws(AdministrationError) {
        var sent = 0
        while sent < bytes.count {
            // MSG_NOSIGNAL: a closed connection is an error and must not end this program.
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw failure("send") }
            sent += count
        }
    }

    private func readLines(_ count: Int) throws(AdministrationError) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var line: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while lines.count < count {
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw failure("recv") }
            if count == 0 { throw .closed }
            var rest = chunk[..<count]
            while let feed = rest.firstIndex(of: UInt8(ascii: "\n")) {
                lines.append(line + rest[...feed])
                line = []
                rest = rest[(feed + 1)...]
            }
            line += rest
            if line.count > AdministrationLine.replyByteCountMaximum {
                throw .malformedReply(
                    "longer than \(AdministrationLine.replyByteCountMaximum) bytes")
            }
        }
        return lines
    }

    private func failure(_ call: String) -> AdministrationError {
        switch errno {
        case EAGAIN: .timedOut
        case EPIPE, ECONNRESET: .closed
        default: .system(call: call, path: path, code: errno)
        }
    }

    private static func connectedSocket(_ path: String) throws(AdministrationError) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isShortEnough = withUnsafeMutableBytes(of: &address.sun_path) { room in
            // One byte is for the terminator.
            guard path.utf8.count < room.count else { return false }
            room.copyBytes(from: path.utf8)
            return true
        }
        guard isShortEnough else {
            throw .system(call: "connect", path: path, code: ENAMETOOLONG)
        }
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { throw .system(call: "socket", path: path, code: errno) }
        var timeout = timeval(tv_sec: answerSecondsMaximum, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(
                descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        if result == 0 { return descriptor }
        let code = errno
        close(descriptor)
        if code == ENOENT || code == ECONNREFUSED { throw .notRunning(path: path) }
        throw .system(call: "connect", path: path, code: code)
    }
}
