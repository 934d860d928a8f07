// The loop itself: deadlines, wake-ups, listeners, exhausted resources, the stop.
import Glibc
import NetTransport
import Primitives
import TestSurroundings
import Testing

@Suite struct LoopTests {
    @Test func `a connection that does not authenticate reaches its deadline`() throws {
        var configuration = EventLoop.Configuration()
        configuration.authenticationMilliseconds = 30
        var bench = try Bench(.plain, configuration)
        let (_, server) = try bench.connect()
        bench.turn { _, recorder in recorder.end(of: server) != nil }
        #expect(bench.recorder.deadlines == [.authentication])
        #expect(bench.recorder.end(of: server)?.cause == .closedByHandler)
    }

    @Test func `a handshake that is not complete in time ends with its own cause`() throws {
        var configuration = EventLoop.Configuration()
        configuration.authenticationMilliseconds = 30
        var bench = try Bench(.tls13, configuration)
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends[0].cause == .handshakeTimeout)
        #expect(bench.recorder.deadlines.isEmpty)
    }

    @Test func `a keep-alive counts from the last bytes`() throws {
        var bench = try Bench()
        let (client, server) = try bench.connect()
        bench.loop.setDeadline(.keepAlive, for: server, afterMilliseconds: 3_000)
        let start = bench.loop.now
        for _ in 0..<3 {
            // The rest of the time is for a machine that lets this thread stand still.
            let next = bench.loop.now.advanced(byMilliseconds: 1_000)
            bench.turn { loop, _ in loop.now >= next }
            bench.send([1], to: client)
        }
        bench.turn { _, recorder in !recorder.deadlines.isEmpty }
        #expect(bench.recorder.deadlines == [.keepAlive])
        #expect(bench.loop.now.milliseconds(since: start) >= 3 * 1_000 + 3_000 - 1)
    }

    @Test func `a removed deadline is never reached`() throws {
        var bench = try Bench()
        let (_, server) = try bench.connect()
        // Without a turn in between it cannot be reached.
        bench.loop.setDeadline(.authentication, for: server, afterMilliseconds: 20)
        bench.loop.clearDeadline(of: server)
        let later = bench.loop.now.advanced(byMilliseconds: 60)
        bench.turn { loop, _ in loop.now >= later }
        #expect(bench.recorder.deadlines.isEmpty)
    }

    @Test func `a peer that reads nothing is closed after the linger time`() throws {
        var configuration = EventLoop.Configuration()
        configuration.lingerMilliseconds = 50
        var bench = try Bench(.plain, configuration)
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        bench.turn { _, recorder in recorder.accepted.count == 1 }
        bench.send(pattern(8_000_000), to: bench.recorder.accepted[0])
        bench.loop.close(bench.recorder.accepted[0], afterFlush: true)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends[0].cause == .lingerTimeout)
    }

    @Test func `a wake-up from another thread ends the wait`() throws {
        var bench = try Bench()
        let handle = bench.loop.handle
        let thread = try startThread {
            for _ in 0..<1000 { handle.wake() }
        }
        bench.turn { _, recorder in recorder.wakes > 0 }
        pthread_join(thread, nil)
        let seen = bench.recorder.wakes
        handle.wake()
        handle.wake()
        bench.turn { _, recorder in recorder.wakes > seen }
        #expect(handle.counters.turns == bench.loop.counters.turns)
    }

    @Test func `the loop wakes for its handler's own deadline`() throws {
        var bench = try Bench()
        bench.loop.nextWake = bench.loop.now.advanced(byMilliseconds: 20)
        _ = bench.loop.turn(&bench.recorder)
        #expect(bench.loop.now >= bench.loop.nextWake)
    }

    @Test func `a stop sends the last bytes, closes everything and returns`() throws {
        var bench = try Bench(.tls13)
        let (client, server) = try bench.connect()
        bench.recorder.goodbye = pattern(500)
        let handle = bench.loop.handle
        let thread = try startThread { handle.requestStop() }
        bench.loop.run(&bench.recorder)
        pthread_join(thread, nil)
        // The good-bye reaches even a client on the same loop, which stops as well.
        #expect(bench.recorder.end(of: server)?.cause == .loopStopped)
        #expect(bench.recorder.end(of: client) != nil)
        #expect(bench.recorder.ends.count == 2)
        #expect(bench.loop.connectionCount == 0)
    }

    @Test func `without descriptors the listener pauses instead of spinning`() async {
        // The limit is the process's, so this runs in a process of its own.
        await #expect(processExitsWith: .success) {
            var configuration = EventLoop.Configuration()
            configuration.acceptPauseMilliseconds = 50
            var bench = try Bench(.plain, configuration)
            var sockets: [Int32] = []
            for _ in 0..<3 { sockets.append(try connectedSocket(to: bench.address)) }
            let highest = dup(0)
            var limit = rlimit(rlim_cur: rlim_t(highest + 1), rlim_max: rlim_t(highest + 1))
            precondition(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
            // Other threads of the process open and close files too: whatever they let go is taken,
            // again and again, so that below the limit nothing is free.
            var takers: [Int32] = [highest]
            func takeAll() {
                while case let taken = dup(0), taken >= 0 { takers.append(taken) }
            }
            takeAll()

            let turns = bench.loop.counters.turns
            let start = bench.loop.now
            bench.turn { loop, _ in
                takeAll()
                return loop.counters.acceptPauses == 4
            }
            #expect(bench.recorder.accepted.isEmpty)
            #expect(bench.loop.now.milliseconds(since: start) >= 3 * 50)
            #expect(bench.loop.counters.turns - turns < 20)

            // Room again: those who waited in the kernel are served.
            for descriptor in sockets + takers { close(descriptor) }
            bench.turn { _, recorder in recorder.accepted.count == 3 }
            #expect(bench.recorder.accepted.count == 3)
        }
    }

    @Test func `a Unix-domain listener is private to its owner and removes its socket`() throws {
        let path = try TemporaryDirectory.make("net") + "/admin.sock"
        do {
            var loop = try EventLoop(handle: LoopHandle())
            try loop.listen(on: Listener(unixPath: path, tag: 3))
            var information = stat()
            #expect(lstat(path, &information) == 0)
            #expect(information.st_mode & 0o777 == 0o600)
            var recorder = Recorder()
            let client = try connectedUnixSocket(to: path)
            defer { close(client) }
            #expect(send(client, "hi", 2, 0) == 2)
            let end = loop.now.advanced(byMilliseconds: 60_000)
            while loop.counters.bytesSent < 2, loop.now < end {
                _ = loop.turn(&recorder, waitMaximum: 100)
            }
            var answer = [UInt8](repeating: 0, count: 4)
            #expect(recv(client, &answer, 4, 0) == 2)
        }
        #expect(access(path, F_OK) != 0)
    }

    @Test func `a listener does not replace a file that is no socket`() throws {
        let path = try TemporaryDirectory.make("net") + "/precious"
        let descriptor = open(path, O_CREAT | O_WRONLY, 0o600)
        close(descriptor)
        #expect(throws: TransportError.system(call: "bind", subject: path, errno: EEXIST)) {
            _ = try Listener(unixPath: path)
        }
        #expect(access(path, F_OK) == 0)
    }

    @Test func `the address of every interface accepts IPv4 and IPv6`() throws {
        let listener = try Listener(on: .any(port: 0))
        var bench = try Bench()
        try bench.loop.listen(on: listener)
        for host in ["127.0.0.1", "::1"] {
            let address = try #require(
                SocketAddress(numericHost: host, port: listener.address.port))
            _ = try bench.loop.connect(to: address)
        }
        bench.turn { _, recorder in recorder.accepted.count == 2 }
    }

    @Test func `an error for a port in use names the address`() throws {
        let listener = try Listener(on: .loopback(port: 0))
        #expect(
            throws: TransportError.system(
                call: "bind", subject: listener.address.description, errno: EADDRINUSE)
        ) {
            _ = try Listener(on: listener.address)
        }
    }

    @Test func `valid names and numbers resolve, invalid ones do not`() throws {
        let addresses = try Resolver.resolve(host: "127.0.0.1", port: 8883)
        #expect(addresses.map(\.description) == ["127.0.0.1:8883"])
        #expect(throws: TransportError.self) {
            _ = try Resolver.resolve(host: "no such host", port: 1)
        }
        #expect(SocketAddress(numericHost: "localhost", port: 1) == nil)
        #expect(
            SocketAddress(numericHost: "2001:db8::1", port: 2)?.description == "[2001:db8::1]:2")
    }
}

/// Starts a thread that runs `body` once.
func startThread(_ body: @escaping @Sendable () -> Void) throws -> pthread_t {
    final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let argument = Unmanaged.passRetained(Box(body)).toOpaque()
    let result = pthread_create(
        &thread, nil,
        { argument in
            Unmanaged<Box>.fromOpaque(argument!).takeRetainedValue().body()
            return nil
        }, argument)
    try #require(result == 0)
    return thread
}

func connectedUnixSocket(to path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let result = withUnsafePointer(to: &name) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
    try #require(result == 0)
    return descriptor
}
