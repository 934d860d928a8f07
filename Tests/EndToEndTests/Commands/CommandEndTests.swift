// The end of commands: after a signal, at a timeout, at the end of slow input, and with a blocked
// output. The exit code reports what has happened.

import Foundation
import Glibc
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct CommandEndTests {
        private static let martlet = ChildProcess.programs.appending(path: "martlet").path

        /// `martlet listen` as dave, with a will that is set.
        private func listener(
            of broker: TestBroker, before: String = ""
        ) async throws -> ChildProcess {
            let command = "\(before)exec \(Self.martlet) listen --will lost --will-to alice"
            let child = try ChildProcess(
                "/bin/bash", ["-c", command], environment: try broker.environment("dave"))
            try await eventually("a will") { try broker.counter("wills/count") == 1 }
            return child
        }

        /// Runs a line of bash as a user, to its end.
        private func shell(
            _ command: String, as user: String = "alice", of broker: TestBroker
        ) async throws -> (exit: ChildExit, text: String) {
            let child = try ChildProcess(
                "/bin/bash", ["-c", command.replacing("martlet ", with: "\(Self.martlet) ")],
                environment: try broker.environment(user))
            return (try await child.exit(), child.text)
        }

        // MARK: - Signals

        @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
        func `a signal ends listen normally, and no will is sent`(signal: Int32) async throws {
            let broker = try await TestBroker()
            try broker.addUsers("alice")
            let child = try await listener(of: broker)
            child.signal(signal)
            #expect(try await child.exit() == .code(128 + signal))
            // It does not wait for a broker that is paused for long.
            try await eventually("no will") { try broker.counter("wills/count") == 0 }
            #expect(try broker.counter("wills/sent") == 0)
        }

        @Test func `the second signal ends listen at once, even if its broker is stopped`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("alice")
            let child = try await listener(of: broker)
            broker.process.signal(SIGSTOP)
            defer { broker.process.signal(SIGCONT) }
            // Where both wait, the lower number comes first.
            child.signal(SIGINT)
            child.signal(SIGTERM)
            #expect(try await child.exit() == .code(143))
        }

        @Test func `listen under nohup survives its terminal`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("alice")
            let child = try await listener(of: broker, before: "trap '' HUP; ")
            child.signal(SIGHUP)
            child.signal(SIGTERM)
            #expect(try await child.exit() == .code(143))
        }

        // MARK: - Input

        /// A `martlet send` whose input is open until `close`.
        private func sender(
            _ arguments: String, of broker: TestBroker
        ) async throws -> (child: ChildProcess, input: FileHandle) {
            let path = "\(broker.directory)/input-\(UUID().uuidString)"
            guard mkfifo(path, 0o600) == 0 else { throw TestFailure("mkfifo: \(errno)") }
            // Opened for both, so that neither side waits for the other.
            let descriptor = open(path, O_RDWR | O_CLOEXEC)
            guard descriptor >= 0 else { throw TestFailure("open: \(errno)") }
            let child = try ChildProcess(
                "/bin/bash", ["-c", "exec \(Self.martlet) send \(arguments) < \(path)"],
                environment: try broker.environment("alice"))
            return (child, FileHandle(fileDescriptor: descriptor, closeOnDealloc: true))
        }

        @Test func `a timeout ends a command that waits for input`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let (child, input) = try await sender("--to=bob --timeout=12s", of: broker)
            try input.write(contentsOf: Data("one\n".utf8))
            #expect(try await child.exit() == .code(27))
            #expect(child.text.contains("1 line acknowledged"), "\(child.text)")
            try input.close()
        }

        @Test func `a line that comes after the broker has died is sent to the next one`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let (child, input) = try await sender("--to=bob --timeout=5m", of: broker)
            try input.write(contentsOf: Data("one\n".utf8))
            #expect(try await bob.nextTexts(1) == ["one"])
            try await broker.killNow()
            try input.write(contentsOf: Data("two\n".utf8))
            try await broker.start()
            // The broker may have died before it had the acknowledgement of the first line.
            var texts = try await bob.nextTexts(1)
            if texts == ["one"] { texts = try await bob.nextTexts(1) }
            #expect(texts == ["two"])
            try input.write(contentsOf: Data("three".utf8))
            try input.close()
            #expect(try await child.exit() == .code(0), "\(child.text)")
            #expect(try await bob.nextTexts(1) == ["three"])
        }

        @Test func `a command that waits for input keeps no messages of its user`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let (child, input) = try await sender("--to=bob --timeout=5m", of: broker)
            try input.write(contentsOf: Data("one\n".utf8))
            #expect(try await bob.nextTexts(1) == ["one"])
            // The queue of a session in memory has 1,000 messages.
            for _ in 0..<1_200 {
                let receipt = try await bob.send(OutgoingMessage(to: .user("alice"), text: "x"))
                #expect(receipt.refusedCount == 0)
            }
            try input.close()
            #expect(try await child.exit() == .code(0), "\(child.text)")
        }

        @Test func `a failure ends the command without another line of input`() async throws {
            let broker = try await TestBroker()
            let (child, input) = try await sender("--to=nobody", of: broker)
            try input.write(contentsOf: Data("one\n".utf8))
            #expect(try await child.exit() == .code(0x90))
            #expect(child.text.contains("line 1: "), "\(child.text)")
            try input.close()
        }

        @Test func `invalid UTF-8 is refused by its line number, and bytes are sent unchanged`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let text = try await shell(
                #"printf 'good\nb\xffd\nnever\n' | martlet send --to bob"#, of: broker)
            #expect(text.exit == .code(2))
            #expect(text.text.contains("line 2 is not UTF-8"), "\(text.text)")
            #expect(text.text.contains("1 line acknowledged"), "\(text.text)")
            #expect(try await bob.nextTexts(1) == ["good"])
            try await bob.subscribe(to: "raw", grade: .once)
            let raw = try await shell(
                #"printf 'x\xff\x00y\r\n\nlast' | martlet send --topic raw --bytes"#, of: broker)
            #expect(raw.exit == .code(0), "\(raw.text)")
            for bytes in [[0x78, 0xFF, 0x00, 0x79, 0x0D], [], Array("last".utf8)] as [[UInt8]] {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                #expect(message.content == .bytes(bytes))
            }
            let word = try await shell(
                #"martlet send --topic raw --bytes $'x\xff'"#, of: broker)
            #expect(word.exit == .code(1) && word.text.contains("is not UTF-8"))
        }

        // MARK: - Output

        @Test func `a result that cannot be written is an error, and its token is revoked`()
            async throws
        {
            let broker = try await TestBroker()
            for arguments in ["--user new", "--count 3 --prefix dev-"] {
                let mint = try await shell(
                    "martlet token mint \(arguments) > /dev/full", of: broker)
                #expect(mint.exit == .code(2))
                #expect(mint.text.contains("No space left on device"), "\(mint.text)")
                #expect(mint.text.contains("revoked again"), "\(mint.text)")
            }
            let tokens = try await shell("martlet token list", of: broker)
            #expect(tokens.text.contains(" alice "))
            #expect(!tokens.text.contains(" new ") && !tokens.text.contains(" dev-"))
            let app = try await shell("martlet app create other > /dev/full", of: broker)
            #expect(app.exit == .code(2) && app.text.contains("its key is lost"), "\(app.text)")
            for command in ["--version", "help token", "app list", "token list", "stats"] {
                let result = try await shell("martlet \(command) > /dev/full", of: broker)
                #expect(result.exit == .code(2), "\(command): \(result.text)")
                #expect(result.text.contains("No space left on device"), "\(command)")
            }
        }

        /// The lock of the store was the first file that was opened, and the log was written to it.
        @Test func `a program without standard streams writes no output into its files`()
            async throws
        {
            let data = FileManager.default.temporaryDirectory
                .appending(path: "martlet-closed-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: data) }
            let martletd = ChildProcess.programs.appending(path: "martletd").path
            let command =
                "exec \(martletd) --dev --data=\(data.path) --listen=tcp://127.0.0.1:0"
            let child = try ChildProcess("/bin/bash", ["-c", "\(command) <&- >&- 2>&-"])
            defer { child.signal(SIGKILL) }
            let lock = data.appending(path: "martlet.lock")
            try await eventually("a broker") {
                FileManager.default.fileExists(atPath: data.appending(path: "admin.sock").path)
            }
            child.signal(SIGTERM)
            // The lines for a person at the terminal did not get out.
            #expect(try await child.exit() == .code(2))
            let text = try String(contentsOf: lock, encoding: .utf8)
            #expect(text.allSatisfy { $0.isNumber || $0.isNewline }, "\(text)")

            let broker = try await TestBroker()
            let mint = try await shell("martlet token mint --user new >&-", of: broker)
            #expect(mint.exit == .code(2))
            #expect(mint.text.contains("Bad file descriptor"), "\(mint.text)")
            #expect(mint.text.contains("revoked again"), "\(mint.text)")
        }

        @Test func `listen reports a failed output and acknowledges only printed messages`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            _ = try await shell("martlet send --to bob hello", of: broker)
            let full = try await shell("martlet listen > /dev/full", as: "bob", of: broker)
            #expect(full.exit == .code(2) && full.text.contains("No space left on device"))
            let gone = try await shell(
                "set -o pipefail; martlet listen | true", as: "bob", of: broker)
            #expect(gone.exit == .code(2))
            #expect(gone.text.contains("nobody reads standard output"), "\(gone.text)")
            let heard = try await shell("martlet listen --count 1", as: "bob", of: broker)
            #expect(heard.exit == .code(0) && heard.text.contains("alice (unicast): hello"))
        }

        @Test func `a time without a unit is refused with the correct form`() async throws {
            let broker = try await TestBroker()
            let mint = try await shell("martlet token mint --user new --expires 10", of: broker)
            #expect(mint.exit == .code(1))
            #expect(mint.text.contains("10s, 10m, 10h, 10d or 10y"), "\(mint.text)")
        }

        // MARK: - A broker that is none

        @Test func `an unrequested AUTH ends the connection, not the program`()
            async throws
        {
            var accepted = MRT.ConnectAccepted()
            accepted.sessionEpoch = 1
            accepted.resumeCookie = 1
            accepted.packetMaximum = 65_536
            accepted.messageMaximum = 1_024
            accepted.user = ByteRange(offset: 0, count: 5)
            let answer = encoded(accepted, "alice") + [0xF0, 0x01, 0x00]
            let server = try AnsweringServer(answer)
            let child = try ChildProcess(
                "martlet",
                [
                    "listen", "--server=tcp://127.0.0.1:\(server.port)", "--token=t",
                    "--timeout=12s",
                ])
            let line = try await child.line(with: "connection lost")
            #expect(line.contains("protocol-error"), "\(line)")
            #expect(try await child.exit() == .code(27))
        }

        private func encoded(_ packet: some MRT.Packet, _ source: String) -> [UInt8] {
            packetBytes(packet, Array(source.utf8))
        }
    }
}
