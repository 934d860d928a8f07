// A client with several servers: where it goes, and what the application sees of it.

import Testing

@testable import MartletClient

@Suite struct ServerRotationTests {
    private static let servers = "tcp://127.0.0.1:1,tcp://127.0.0.1:2,tcp://127.0.0.1:3"

    private func rehearse(
        _ servers: String = servers, attemptsMaximum: Int? = nil
    ) throws -> ClientRehearsal {
        var settings = ClientSettings(
            servers: try ServerAddress.list(servers), credential: .token("t"))
        settings.firstAttemptsMaximum = attemptsMaximum
        let client = try ClientRehearsal(settings)
        client.connect()
        return client
    }

    /// A login that a standby answers.
    private func refuse(_ client: ClientRehearsal, naming name: String) {
        client.open()
        _ = client.takeOutgoing()
        let body = [0x9C, 0] + Array(name.utf8)
        ([0x20, UInt8(body.count)] + body).withUnsafeBytes { client.receive($0) }
        client.pass(milliseconds: 0)
    }

    private func fail(_ client: ClientRehearsal) {
        client.lose()
        client.pass(milliseconds: 0)
    }

    @Test func `a standby sends the client to a server of its list`() throws {
        let client = try rehearse()
        #expect(client.server.port == 1 && client.isDialing)
        refuse(client, naming: "127.0.0.1:3")
        #expect(client.server.port == 3 && client.isDialing)
        // The application hears of nothing: nothing was lost.
        #expect(client.takeEvent() == nil)
    }

    @Test func `no connection is made to a server outside of the list`() throws {
        let client = try rehearse(attemptsMaximum: 1)
        for _ in 0..<3 { refuse(client, naming: "127.0.0.1:4") }
        #expect(!client.isDialing)
        #expect(
            client.takeOutcomes() == [
                (1...3).map {
                    "tcp://127.0.0.1:\($0): use-another-server (0x9C), 127.0.0.1:4"
                }.joined(separator: "; ")
            ])
    }

    @Test func `bytes that are no address are not shown`() throws {
        for name in ["a b:1", "a:1\n", "\u{1B}[2J", "", String(repeating: "a", count: 120) + "\""] {
            let client = try rehearse("tcp://127.0.0.1:1", attemptsMaximum: 1)
            refuse(client, naming: name)
            #expect(client.takeOutcomes() == ["tcp://127.0.0.1:1: use-another-server (0x9C)"])
        }
    }

    @Test func `an attempt is a round through the list`() throws {
        let client = try rehearse(attemptsMaximum: 2)
        for _ in 0..<3 { fail(client) }
        guard case .disconnected(let end)? = client.takeEvent() else {
            Issue.record("the application does not hear of the failed round")
            return
        }
        #expect(
            end.detail == "tcp://127.0.0.1:1: lost; tcp://127.0.0.1:2: lost; "
                + "tcp://127.0.0.1:3: lost")
        #expect(client.takeEvent() == nil && client.takeOutcomes().isEmpty)
        client.pass(milliseconds: end.retryMilliseconds)
        for port in 1...3 as ClosedRange<UInt16> {
            #expect(client.isDialing && client.server.port == port)
            fail(client)
        }
        #expect(client.takeOutcomes().count == 1)
    }
}
