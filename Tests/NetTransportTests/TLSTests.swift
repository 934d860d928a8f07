// Accepted and refused certificates, and the texts of the errors.
import BrokerTerms
import COpenSSL
import Glibc
import Synchronization
import TestSurroundings
import Testing

@testable import NetTransport

@Suite struct TLSTests {
    private var files: TestCertificates { .shared }

    /// Connects with `client` and gives both ends' fates once the client is open or closed.
    private func attempt(
        _ client: ClientTLSContext, serverName: String?, on bench: inout Bench
    ) throws -> ConnectionID {
        let connection = try bench.loop.connect(
            to: bench.address, tls: client, serverName: serverName)
        bench.turn { _, recorder in
            recorder.connected.contains(connection) || recorder.end(of: connection) != nil
        }
        return connection
    }

    @Test func `a connection that is open at its first step is reported`() throws {
        // The server answers while the client is still in the call that sent its first words: that
        // call then reads the answer too and is through. The server is on a thread of its own, and
        // the client is held, between its words and its look at the socket, until the answer is
        // there.
        let server = try Listener(on: .loopback(port: 0), tls: serverTLS(), tag: 5)
        let address = server.address
        final class Flag: Sendable { let isSet = Atomic(false) }
        let over = Flag()
        let thread = try startThread {
            guard var loop = try? EventLoop(.init(), handle: LoopHandle()) else { return }
            try? loop.listen(on: server)
            var recorder = Recorder()
            while !over.isSet.load(ordering: .relaxed) {
                _ = loop.turn(&recorder, waitMaximum: 20)
            }
        }
        defer {
            over.isSet.store(true, ordering: .relaxed)
            pthread_join(thread, nil)
        }
        let context = try clientTLS()
        context.withPointer { pointer in
            SSL_CTX_set_info_callback(pointer) { session, place, _ in
                guard place == SSL_CB_CONNECT_LOOP,
                    SSL_get_state(session) == TLS_ST_CW_CLNT_HELLO
                else { return }
                var answer = pollfd(
                    fd: SSL_get_fd(session), events: Int16(POLLIN), revents: 0)
                poll(&answer, 1, 20_000)
            }
        }
        var bench = try Bench()
        let connection = try bench.loop.connect(
            to: address, tls: context, serverName: "localhost")
        bench.turn { _, recorder in recorder.connected.contains(connection) }
        #expect(bench.loop.counters.handshakesCompleted == 1)
    }

    @Test func `a server certificate of another authority is refused`() throws {
        var bench = try Bench(.tls13)
        let client = try ClientTLSContext(trust: .authorityFile(files.strangeAuthority))
        let connection = try attempt(client, serverName: "localhost", on: &bench)
        let end = try #require(bench.recorder.end(of: connection))
        #expect(end.cause == .tlsFailure)
        #expect(end.detail.hasPrefix("certificate: "))
        bench.turn { loop, _ in loop.connectionCount == 0 }
        #expect(bench.recorder.accepted.isEmpty)
        #expect(bench.recorder.ends.count == 2)
    }

    @Test func `a server with another name is refused`() throws {
        var bench = try Bench(.tls13)
        let connection = try attempt(clientTLS(), serverName: "other.example", on: &bench)
        let end = try #require(bench.recorder.end(of: connection))
        #expect(end.cause == .tlsFailure)
        #expect(end.detail.lowercased().contains("hostname mismatch"))
    }

    @Test func `a numeric address is verified as an address`() throws {
        var bench = try Bench(.tls13)
        let right = try attempt(clientTLS(), serverName: nil, on: &bench)
        #expect(bench.recorder.connected == [right])
        let wrong = try attempt(clientTLS(), serverName: "127.0.0.2", on: &bench)
        #expect(bench.recorder.end(of: wrong)?.cause == .tlsFailure)
    }

    @Test func `an empty server name is an error and does not disable verification`() throws {
        var bench = try Bench(.tls13)
        let client = try clientTLS()
        #expect(throws: TransportError.self) {
            _ = try bench.loop.connect(to: bench.address, tls: client, serverName: "")
        }
    }

    @Test func `plain bytes on a TLS port end with a TLS failure`() throws {
        var bench = try Bench(.tls13)
        let socket = try connectedSocket(to: bench.address)
        #expect(send(socket, "GET / HTTP/1.0\r\n\r\n", 18, 0) == 18)
        bench.turn { loop, _ in loop.counters.accepted == 1 }
        // The end is told once the peer has closed too.
        for _ in 0..<5 { _ = bench.loop.turn(&bench.recorder, waitMaximum: 10) }
        close(socket)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends[0].cause == .tlsFailure)
        #expect(bench.recorder.ends[0].detail == "http request")
        #expect(bench.loop.counters[closed: .tlsFailure] == 1)
        #expect(bench.recorder.accepted.isEmpty)
    }

    /// Puts key updates into the kernel's buffer before the server reads any.
    private func sendKeyUpdates(
        _ count: Int, from client: ConnectionID, in bench: borrowing Bench
    ) {
        let session = bench.loop.slots[client.slot].tls
        for _ in 0..<count {
            guard SSL_key_update(session, SSL_KEY_UPDATE_NOT_REQUESTED) == 1,
                SSL_do_handshake(session) == 1
            else {
                Issue.record("a key update was not sent")
                return
            }
        }
    }

    @Test func `key updates without end end the connection that sends them`() throws {
        var bench = try Bench(.tls13)
        let (client, server) = try bench.connect()
        sendKeyUpdates(10 * ControlRecordBound.maximum, from: client, in: bench)
        bench.turn { _, recorder in recorder.end(of: client) != nil }
        bench.loop.close(client, afterFlush: false)
        bench.turn { _, recorder in recorder.end(of: server) != nil }
        let end = try #require(bench.recorder.end(of: server))
        #expect(end.cause == .tlsFailure)
        #expect(end.detail == "too many key updates")
    }

    @Test func `key updates within the bound leave a connection as it is`() throws {
        var bench = try Bench(.tls13)
        let (client, server) = try bench.connect()
        for turn in 1...3 {
            sendKeyUpdates(ControlRecordBound.maximum, from: client, in: bench)
            bench.send([UInt8(turn)], to: client)
            bench.turn { _, recorder in recorder.received[client]?.count == turn }
        }
        #expect(bench.recorder.received[client] == [1, 2, 3])
        #expect(bench.recorder.end(of: server) == nil)
    }

    @Test func `the handler gets a client certificate in DER`() throws {
        var bench = try Bench(
            tls: serverTLS(clients: .required(authorityFile: files.authority)))
        let client = try ClientTLSContext(
            trust: .authorityFile(files.authority), certificateChainFile: files.client,
            keyFile: files.clientKey)
        _ = try attempt(client, serverName: "localhost", on: &bench)
        bench.turn { _, recorder in recorder.accepted.count == 1 }
        let shown = bench.loop.peerCertificate(of: bench.recorder.accepted[0])
        let certificate = try #require(shown)
        #expect(certificate.first == 0x30)
        #expect(contains(certificate, Array("device-7".utf8)))
    }

    @Test func `a client without a required certificate is refused`() throws {
        var bench = try Bench(
            tls: serverTLS(clients: .required(authorityFile: files.authority)))
        _ = try attempt(clientTLS(), serverName: "localhost", on: &bench)
        bench.turn { loop, _ in loop.counters[closed: .tlsFailure] > 0 }
        #expect(bench.recorder.accepted.isEmpty)
    }

    @Test func `a session is resumed with the ticket of an earlier one`() throws {
        var bench = try Bench(.tls13)
        let client = try clientTLS()
        let first = try attempt(client, serverName: "localhost", on: &bench)
        bench.send([1], to: first)
        bench.turn { _, recorder in recorder.received[first] == [1] }
        let given = bench.loop.sessionTicket(of: first)
        let ticket = try #require(given)
        let second = try bench.loop.connect(
            to: bench.address, tls: client, serverName: "localhost", resuming: ticket)
        bench.turn { _, recorder in recorder.accepted.count == 2 }
        #expect(bench.loop.tlsSummary(of: second)?.isResumed == true)
        // Both ends of the second connection count.
        #expect(bench.loop.counters.handshakesResumed == 2)
    }

    @Test func `tickets remain valid in a new context with the same keys`() throws {
        let keys = [UInt8](repeating: 7, count: ServerTLSContext.ticketKeyByteCount)
        let client = try clientTLS()
        var before = try Bench(tls: sealedServer(keys))
        let first = try attempt(client, serverName: "localhost", on: &before)
        before.send([1], to: first)
        before.turn { _, recorder in recorder.received[first] == [1] }
        let given = before.loop.sessionTicket(of: first)
        let ticket = try #require(given)

        var after = try Bench(tls: sealedServer(keys))
        let second = try after.loop.connect(
            to: after.address, tls: client, serverName: "localhost", resuming: ticket)
        after.turn { _, recorder in recorder.accepted.count == 1 }
        #expect(after.loop.tlsSummary(of: second)?.isResumed == true)
    }

    @Test func `ticket keys of a wrong length are refused`() throws {
        let server = try serverTLS()
        #expect(throws: TransportError.self) { try server.setTicketKeys([1, 2, 3]) }
    }

    @Test func `a replaced context serves new connections and does not change old ones`() throws {
        let server = try serverTLS()
        var bench = try Bench(tls: server)
        let old = try attempt(clientTLS(), serverName: "localhost", on: &bench)
        var options = ServerTLSContext.Options(
            certificateChainFile: files.server, keyFile: files.serverKey)
        options.newestVersion = .tls12
        try server.replace(with: options)
        let new = try attempt(clientTLS(), serverName: "localhost", on: &bench)
        #expect(bench.loop.tlsSummary(of: old)?.version == "TLSv1.3")
        #expect(bench.loop.tlsSummary(of: new)?.version == "TLSv1.2")
        bench.send([5], to: old)
        bench.turn { _, recorder in recorder.received[old] == [5] }

        options.keyFile = files.clientKey
        #expect(throws: TransportError.self) { try server.replace(with: options) }
        let still = try attempt(clientTLS(), serverName: "localhost", on: &bench)
        #expect(bench.recorder.connected.contains(still))
    }

    @Test func `an error names the file that is missing or does not match`() throws {
        #expect {
            _ = try ServerTLSContext(.init(certificateChainFile: "/nowhere/c.pem", keyFile: "k"))
        } throws: { error in
            let text = (error as? TransportError)?.description ?? ""
            return text.contains("/nowhere/c.pem") && text.contains("No such file")
        }
        #expect {
            _ = try ServerTLSContext(
                .init(certificateChainFile: files.server, keyFile: files.clientKey))
        } throws: { error in
            (error as? TransportError)?.description.contains(files.clientKey) == true
        }
    }

    @Test func `a private key that everybody can read is refused, one of a group is taken`()
        throws
    {
        let own = CertificateDirectory("key-mode")
        own.makeAuthority("own", subject: "/CN=own")
        let (chain, key) = (own.file("own.pem"), own.file("own.key"))
        try #require(chmod(key, 0o640) == 0)
        _ = try ServerTLSContext(.init(certificateChainFile: chain, keyFile: key))
        try #require(chmod(key, 0o644) == 0)
        #expect {
            _ = try ServerTLSContext(.init(certificateChainFile: chain, keyFile: key))
        } throws: { error in
            (error as? TransportError)?.description.contains("chmod o= \(key)") == true
        }
    }

    private func sealedServer(_ keys: [UInt8]) throws -> ServerTLSContext {
        let server = try serverTLS()
        try server.setTicketKeys(keys)
        return server
    }

    private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        (0...(bytes.count - part.count)).contains {
            bytes[$0..<($0 + part.count)].elementsEqual(part)
        }
    }
}
