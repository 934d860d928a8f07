// What operators watch: `martlet top`, `martlet session watch`, and what the log tells of logins.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct WatchCommandTests {
        private func martlet(
            _ words: String..., of broker: TestBroker
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "martlet", words, environment: try broker.environment("operator"))
            return (try await child.exit(), child.text)
        }

        private func python(_ text: String, _ words: String...) throws -> ChildProcess {
            try ChildProcess("/usr/bin/python3", ["-c", text] + words)
        }

        /// Subscribes to everything, and reads nothing more.
        private static let deaf = """
            import signal, socket, struct, sys
            def text(s): return struct.pack('>H', len(s)) + s
            s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = text(b'MQTT') + bytes([4, 0xC2, 0, 0]) + text(b'ear') + text(b'x')
            body += text(sys.argv[2].encode())
            s.sendall(bytes([0x10, len(body)]) + body)
            s.recv(4)
            body = b'\\0\\1' + text(b'#') + b'\\0'
            s.sendall(bytes([0x82, len(body)]) + body)
            s.recv(5)
            print('subscribed', flush=True)
            signal.pause()
            """

        /// Publishes until it is ended.
        private static let busy = """
            import select, socket, struct, sys
            def text(s): return struct.pack('>H', len(s)) + s
            s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
            body = text(b'MQTT') + bytes([4, 0xC2, 0, 0]) + text(b'bee') + text(b'x')
            body += text(sys.argv[2].encode())
            s.sendall(bytes([0x10, len(body)]) + body)
            s.recv(4)
            print('busy', flush=True)
            body = text(b'noise') + bytes(16000)
            packet = bytes([0x30, len(body) & 127 | 128, len(body) >> 7]) + body
            while True:
                s.sendall(packet)
                select.select([s], [], [], 0.01)
            """

        @Test func `top shows who does most, and what is refused`() async throws {
            let broker = try await TestBroker()
            let deaf = try python(Self.deaf, "\(broker.plainPort)", try broker.token("dave"))
            _ = try await deaf.line(with: "subscribed")
            let busy = try python(Self.busy, "\(broker.plainPort)", try broker.token("bee"))
            _ = try await busy.line(with: "busy")
            try broker.addUsers("away")
            for text in ["one", "two"] {
                let sent = try await martlet(
                    "send", "--as", "bee", "--to", "away", text, of: broker)
                #expect(sent.exit == .code(0), "\(sent.text)")
            }
            let stranger = try await martlet("listen", "--token", "wrong", of: broker)
            #expect(stranger.exit == .code(134), "\(stranger.text)")
            // The client's socket is full after some messages. And each view is that of two
            // seconds, in which a client may have been paused.
            let facts = [
                #""user":"bee""#, #""device":"ear""#, #""event":"auth_failed""#,
                #""senders":[{"app":"demo","#, #""user":"away""#, #""unsentByteCount""#,
            ]
            let idle = #""messageCount":0"#
            var shown = idle
            for _ in 0..<20
            where shown.contains(idle) || !facts.allSatisfy({ shown.contains($0) }) {
                shown = try await martlet("top", "--once", "--json", of: broker).text
            }
            for words in facts { #expect(shown.contains(words), "\(words)\n\(shown)") }
            #expect(!shown.contains(idle), "\(shown)")
            let titles = ["BUSIEST USERS", "bee", "offline queue", "SLOWEST READERS", "dave"]
            var page = ""
            for _ in 0..<20 where !titles.allSatisfy({ page.contains($0) }) {
                let once = try await martlet(
                    "top", "--once", "--interval", "1", "--count", "1", of: broker)
                #expect(once.exit == .code(0))
                page = once.text
            }
            for words in titles { #expect(page.contains(words), "\(words)\n\(page)") }
            let wrong = try await martlet("top", "--interval", "61", of: broker)
            #expect(wrong.exit == .code(1))
            busy.signal(SIGKILL)
            deaf.signal(SIGKILL)
        }

        @Test func `session watch shows logins, ends with their causes, and the queue`()
            async throws
        {
            // As many logins as the loop below needs.
            let broker = try await TestBroker("limits.takeoversPerMinute=100")
            let token = try broker.token("ann")
            try broker.addUsers("bob")
            let watch = try ChildProcess(
                "martlet", ["session", "watch", "ann", "--device", "d1"],
                environment: try broker.environment("operator"))
            let other = try ChildProcess(
                "martlet", ["session", "watch", "--user", "ann", "--json"],
                environment: try broker.environment("operator"))
            func subscribe(_ device: String) throws -> ChildProcess {
                try ChildProcess(
                    "/usr/bin/stdbuf",
                    [
                        "-oL", "/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p",
                        "\(broker.plainPort)", "-u", "x", "-P", token, "-i", device, "-c", "-q",
                        "1", "-t", "$u/ann", "-d",
                    ])
            }
            // Both look at the log from their start on: until they have begun, logins come.
            var clients: [ChildProcess] = []
            while !other.text.contains("client_connected")
                || !watch.text.contains("client_connected")
            {
                let client = try subscribe("d1")
                _ = try await client.line(with: "Subscribed")
                clients.last?.signal(SIGKILL)
                clients.append(client)
                try await broker.waitForBrokerTime(seconds: 1)
            }
            _ = try await watch.line(
                with: "client_connected", "device=d1", "credential=token", "protocol=MQTT 3.1.1")
            _ = try await watch.line(with: "session  device=d1  connected", "waiting=0")
            clients.last?.signal(SIGKILL)
            _ = try await watch.line(with: "client_disconnected", "reason=connection-lost")
            _ = try await watch.line(with: "session  device=d1  away")
            let sent = try await martlet("send", "--as", "bob", "--to", "ann", "hello", of: broker)
            #expect(sent.exit == .code(0), "\(sent.text)")
            _ = try await watch.line(with: "session  device=d1  away", "waiting=1")
            let deleted = try await martlet("session", "delete", "ann", of: broker)
            #expect(deleted.exit == .code(0))
            _ = try await watch.line(with: "session ended  device=d1")
            _ = try await other.line(with: #""endedDevice":"d1""#)
            for child in [watch, other] {
                child.signal(SIGTERM)
                _ = try await child.exit()
            }
            let unknown = try await martlet("session", "watch", "nobody", of: broker)
            #expect(unknown.text.contains("nobody"), "\(unknown.text)")
        }

        @Test func `a login tells its credential, protocol, listener and TLS`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice", device: "d1")
            let line = try await broker.process.line(
                with: "event=client_connected", "user=alice device=d1", "app=demo",
                "credential=token", "protocol=\"MRT 1\"", "listener=tls://", "tls=TLSv1.3",
                "resumed=0")
            let id = try #require(line.firstMatch(of: #/id=([a-z0-9]{12}) /#)).output.1
            let address = try #require(line.firstMatch(of: #/address=([^ ]+) /#)).output.1
            var shown = ""
            // The address of a loop that is paused for half a second is left out.
            for _ in 0..<20 where !shown.contains(address) {
                shown = try await martlet("session", "show", "alice", of: broker).text
            }
            #expect(shown.contains("token \(id)"), "\(shown)")
            #expect(shown.contains("listener:") && shown.contains("tls://"))
            #expect(shown.contains("last bytes:"), "\(shown)")
            #expect(shown.contains(address), "\(shown)")
            await alice.close()
            let key = try broker.variable("MARTLET_APP_KEY")
            let back = try ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-h", "127.0.0.1", "-p", "\(broker.plainPort)", "-u", "demo/alice", "-P", key,
                    "-V", "5", "-t", "t", "-m", "x",
                ])
            #expect(try await back.exit() == .code(0))
            _ = try await broker.process.line(
                with: "event=client_connected", "credential=appKey id=default",
                "protocol=\"MQTT 5.0\"", "listener=tcp://", "tls=\"\"")
        }
    }
}
