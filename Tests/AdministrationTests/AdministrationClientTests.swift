// The client against a real Unix socket. The reply is written before the request is sent, which the
// kernel's buffers permit, so no second thread is needed.
import Administration
import Glibc
import Testing

/// A listening Unix socket in a directory of its own.
private final class Server {
    let directory: String
    var path: String { "\(directory)/admin.sock" }
    private let listener: Int32
    private var accepted: Int32 = -1

    init() throws {
        var template = Array("/tmp/martlet-admin-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure(code: errno) }
        directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0, listen(listener, 1) == 0 else { throw Failure(code: errno) }
    }

    deinit {
        hangUp()
        close(listener)
        unlink(path)
        rmdir(directory)
    }

    struct Failure: Error {
        let code: Int32
    }

    /// Takes the waiting connection and says `bytes` on it.
    func accept(saying bytes: [UInt8]) {
        accepted = Glibc.accept(listener, nil, nil)
        _ = bytes.withUnsafeBytes { write(accepted, $0.baseAddress, $0.count) }
    }

    /// What the client has sent so far.
    func heard() -> [UInt8] {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = recv(accepted, &chunk, chunk.count, Int32(MSG_DONTWAIT))
        return Array(chunk[..<max(0, count)])
    }

    func hangUp() {
        if accepted >= 0 { close(accepted) }
        accepted = -1
    }

    func stopListening() {
        _ = shutdown(listener, Int32(SHUT_RDWR))
    }
}

@Suite struct AdministrationClientTests {
    private let server: Server
    private let add = AddUser(app: "demo", user: "pump-7")

    init() throws {
        server = try Server()
    }

    /// Asks one question of a server that answers with `bytes`.
    private func ask(answer bytes: [UInt8]) throws(AdministrationError) -> AddUser.Reply {
        let client = try AdministrationClient(socketPath: server.path)
        server.accept(saying: bytes)
        return try client.send(add)
    }

    @Test func `a request is sent as its line and the reply is returned`() throws {
        let client = try AdministrationClient(dataDirectory: server.directory)
        server.accept(saying: add.line(replying: .init(isNew: true)))
        #expect(try client.send(add) == AddUser.Reply(isNew: true))
        #expect(server.heard() == add.line)
    }

    @Test func `a refusal is thrown with its reason`() {
        let refusal = AdministrationRefusal(reason: 0x87, message: "no app \"demo\"")
        #expect(throws: AdministrationError.refused(refusal)) { try ask(answer: refusal.line) }
    }

    @Test func `an invalid reply is distinguished from a refusal`() {
        #expect(throws: AdministrationError.malformedReply("not JSON")) {
            try ask(answer: Array("hello\n".utf8))
        }
        #expect(throws: AdministrationError.malformedReply("neither reply nor refusal")) {
            try ask(answer: Array("{\"version\":1}\n".utf8))
        }
    }

    @Test func `a broker that closes the connection early is reported`() throws {
        let client = try AdministrationClient(socketPath: server.path)
        server.accept(saying: Array("{\"version\":1,".utf8))
        server.hangUp()
        #expect(throws: AdministrationError.closed) { try client.send(add) }
    }

    @Test func `a missing broker is distinguished from a missing permission`() {
        let nowhere = "\(server.directory)/other.sock"
        #expect(throws: AdministrationError.notRunning(path: nowhere)) {
            _ = try AdministrationClient(socketPath: nowhere)
        }
        server.stopListening()
        #expect(throws: AdministrationError.notRunning(path: server.path)) {
            _ = try AdministrationClient(socketPath: server.path)
        }
    }

    @Test func `an error names a path that is too long for a socket`() {
        let path = "/tmp/" + String(repeating: "a", count: 103)
        #expect(
            throws: AdministrationError.system(call: "connect", path: path, code: ENAMETOOLONG)
        ) { _ = try AdministrationClient(socketPath: path) }
    }
}
