// Bytes there and back, over plain TCP and TLS, in every size and cut that matters.
import NetTransport
import Primitives
import Testing

@Suite struct EchoTests {
    @Test(arguments: Security.allCases)
    func `bytes come back as they were sent`(_ security: Security) throws {
        var bench = try Bench(security)
        let (client, server) = try bench.connect()
        bench.send(Array("hello".utf8), to: client)
        bench.turn { _, recorder in recorder.received[client]?.count == 5 }
        #expect(bench.recorder.received[client] == Array("hello".utf8))
        let version = bench.loop.tlsSummary(of: server)?.version
        switch security {
        case .plain: #expect(version == nil)
        case .tls12: #expect(version == "TLSv1.2")
        case .tls13: #expect(version == "TLSv1.3")
        }
    }
}
