// `martletd --dev` in a directory that other users can write to or read: it writes no secrets
// there.

import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct DevelopmentPlaceTests {
        private let parent: String

        init() throws {
            parent = try TemporaryDirectory.make("dev")
        }

        private var data: String { "\(parent)/data" }

        /// Starts a broker that has to refuse, and gives what it says.
        private func refusal() async throws -> String {
            let child = try ChildProcess(
                "martletd", ["--dev", "--data", data, "--listen", "tcp://localhost:0"])
            #expect(try await child.exit() == .code(2), "\(child.text)")
            try FileManager.default.removeItem(atPath: parent)
            return child.text
        }

        private func makeData(mode: mode_t = 0o700) throws {
            guard mkdir(data, mode) == 0, chmod(data, mode) == 0 else {
                throw TestFailure("mkdir: \(errno)")
            }
        }

        private func write(_ text: String, to path: String, mode: mode_t) throws {
            try Data(text.utf8).write(to: URL(filePath: path))
            guard chmod(path, mode) == 0 else { throw TestFailure("chmod: \(errno)") }
        }

        @Test(arguments: [
            ("tls://*:0", true), ("tls://127.0.0.1:0", false), ("tls://[::1]:0", false),
        ])
        func `the commands for another machine are for one that reaches the broker`(
            listener: String, isReached: Bool
        ) async throws {
            let child = try ChildProcess(
                "martletd", ["--dev", "--data", data, "--listen", listener])
            _ = try await child.line(with: "event=broker_started")
            #expect(child.text.contains("Paste into another terminal"))
            #expect(child.text.contains("From another Linux machine") == isReached, "\(child.text)")
            child.signal(SIGTERM)
            #expect(try await child.exit() == .code(0))
            try FileManager.default.removeItem(atPath: parent)
        }

        @Test func `a directory that others can write to is refused`() async throws {
            try makeData(mode: 0o777)
            #expect(try await refusal().contains("others may write in it"))
        }

        @Test(.enabled(if: geteuid() == 0, "only root can give a directory away"))
        func `a directory of another user is refused`() async throws {
            try makeData()
            #expect(chown(data, 12_345, 12_345) == 0)
            #expect(try await refusal().contains("another user owns it"))
        }

        @Test func `a dev.env that others can read is refused and stays unchanged`()
            async throws
        {
            try makeData()
            try write("export MARTLET_APP=x\n", to: "\(data)/dev.env", mode: 0o644)
            let child = try ChildProcess(
                "martletd", ["--dev", "--data", data, "--listen", "tcp://localhost:0"])
            #expect(try await child.exit() == .code(2))
            #expect(child.text.contains("no secret any more"))
            let text = try String(contentsOfFile: "\(data)/dev.env", encoding: .utf8)
            #expect(text == "export MARTLET_APP=x\n")
            try FileManager.default.removeItem(atPath: parent)
        }

        @Test(arguments: ["dev.env", "martlet.lock"])
        func `a symbolic link is not followed`(name: String) async throws {
            try makeData()
            let victim = "\(parent)/victim"
            try write("mine\n", to: victim, mode: 0o600)
            #expect(symlink(victim, "\(data)/\(name)") == 0)
            let child = try ChildProcess(
                "martletd", ["--dev", "--data", data, "--listen", "tcp://localhost:0"])
            let exit = try await child.exit()
            #expect(exit == .code(2) || exit == .code(4), "\(child.text)")
            #expect(try String(contentsOfFile: victim, encoding: .utf8) == "mine\n")
            try FileManager.default.removeItem(atPath: parent)
        }

        @Test func `a key that is a symbolic link is replaced, and its target stays`()
            async throws
        {
            try makeData()
            #expect(mkdir("\(data)/certificates", 0o700) == 0)
            let (victim, key) = ("\(parent)/victim", "\(data)/certificates/server-key.pem")
            try write("mine\n", to: victim, mode: 0o600)
            #expect(symlink(victim, key) == 0)
            let child = try ChildProcess(
                "martletd", ["--dev", "--data", data, "--listen", "tcp://localhost:0"])
            _ = try await child.line(with: "event=broker_started")
            child.signal(SIGTERM)
            #expect(try await child.exit() == .code(0))
            #expect(try String(contentsOfFile: victim, encoding: .utf8) == "mine\n")
            #expect(try String(contentsOfFile: key, encoding: .utf8).contains("PRIVATE KEY"))
            try FileManager.default.removeItem(atPath: parent)
        }

        @Test func `created files are private to their user under any umask`() async throws {
            try makeData(mode: 0o755)
            let shell = try ChildProcess(
                "/bin/sh",
                [
                    "-c",
                    "umask 0; exec \(ChildProcess.programs.path)/martletd --dev --data \(data) "
                        + "--listen tcp://localhost:0",
                ])
            _ = try await shell.line(with: "event=broker_started")
            for name in ["dev.env", "certificates/server-key.pem", "certificates/ca-key.pem"] {
                var information = stat()
                #expect(stat("\(data)/\(name)", &information) == 0, "\(name)")
                #expect(information.st_mode & 0o777 == 0o600, "\(name)")
            }
            shell.signal(SIGTERM)
            #expect(try await shell.exit() == .code(0))
            try FileManager.default.removeItem(atPath: parent)
        }
    }
}
