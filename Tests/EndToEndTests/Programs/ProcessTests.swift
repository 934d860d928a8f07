// The broker as a process: exit codes, signals, files.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct ProcessTests {
        @Test func `a second broker on the same directory is refused`() async throws {
            let broker = try await TestBroker()
            let second = try TestBroker.spawn(broker.directory, [], tlsPort: 0, plainPort: 0)
            #expect(try await second.exit() == .code(4))
            #expect(second.text.contains("martletd:"))
            let check = try ChildProcess(
                "martletd", ["--verify-store", "--data", broker.directory])
            #expect(try await check.exit() == .code(4))
            // The first one has not noticed.
            let alice = try await broker.client("alice")
            try await alice.send(OutgoingMessage(to: .user("alice"), text: "fine"))
            try await broker.stop()
        }

        @Test func `a port in use has its own exit code`() async throws {
            let broker = try await TestBroker()
            let second = try TestBroker.spawn(
                "\(broker.directory)-2", [], tlsPort: broker.tlsPort, plainPort: 0)
            #expect(try await second.exit() == .code(3))
            #expect(second.text.contains("in use"))
        }

        /// The unit restarts a broker after other codes, which does not help if a file is missing.
        @Test(arguments: ["tls.certificateFile", "tls.keyFile", "tls.pskFile"])
        func `a file that the configuration names is part of the configuration`(
            key: String
        ) async throws {
            let directory = try TemporaryDirectory()
            let certificates = CertificateDirectory("process")
            certificates.makeAuthority("server", subject: "/CN=server")
            var files = [
                "tls.certificateFile": certificates.file("server.pem"),
                "tls.keyFile": certificates.file("server.key"),
            ]
            files[key] = directory.file("missing.pem")
            let options =
                ["--data", directory.file("data"), "--listen", "tls://localhost:0"]
                + files.flatMap { ["--set", "\($0)=\"\($1)\""] }
            for further in [["--check-config"], []] {
                let broker = try ChildProcess("martletd", options + further)
                #expect(try await broker.exit() == .code(1), "\(further): \(broker.text)")
                #expect(broker.text.contains("missing.pem"), "\(broker.text)")
            }
        }

        @Test func `--check-config finds a data directory that the start could not use`()
            async throws
        {
            let directory = try TemporaryDirectory()
            try Data().write(to: URL(filePath: directory.file("file")))
            try Data("no operators".utf8).write(to: URL(filePath: directory.file("operators")))
            for (data, exit, text) in [
                (directory.file("file"), 1, "file: Not a directory"),
                (directory.file("none/data"), 1, "none: No such file"),
                (directory.path, 1, "operators"), (directory.file("new"), 0, "is valid"),
            ] {
                let broker = try ChildProcess(
                    "martletd",
                    ["--check-config", "--data", data, "--listen", "tcp://localhost:0"])
                #expect(try await broker.exit() == .code(Int32(exit)), "\(data): \(broker.text)")
                #expect(broker.text.contains(text), "\(data): \(broker.text)")
            }
            #expect(!FileManager.default.fileExists(atPath: directory.file("new")))
        }

        @Test(arguments: [SIGTERM, SIGINT])
        func `a signal stops the broker in order: no message is lost or duplicated`(
            signal: Int32
        ) async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try broker.addUsers("bob")
            let count = 500
            let acknowledged = try await withThrowingTaskGroup(of: String.self) { group in
                for number in 0..<count {
                    group.addTask {
                        try await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
                        return "\(number)"
                    }
                }
                var texts: [String] = []
                while texts.count < 50, let text = try await group.next() { texts.append(text) }
                // In the middle of it.
                broker.process.signal(signal)
                #expect(try await broker.process.exit() == .code(0))
                try await broker.start()
                while let text = try await group.next() { texts.append(text) }
                return texts
            }
            let bob = try await broker.client("bob")
            // Results were told before the goodbye, so that no send had to be repeated.
            #expect(try await bob.nextTexts(count).sorted() == acknowledged.sorted())
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }

        @Test func `files of the broker are readable by their owner only`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "secret"))
            let names = try FileManager.default.subpathsOfDirectory(atPath: broker.directory)
            #expect(names.contains("dev.env") && names.contains("admin.sock"))
            let root = try FileManager.default.attributesOfItem(atPath: broker.directory)
            #expect((root[.posixPermissions] as? Int).map { $0 & 0o077 } == 0)
            for name in names where !name.hasSuffix("ca.pem") && !name.hasSuffix("server.pem") {
                let path = "\(broker.directory)/\(name)"
                let attributes = try FileManager.default.attributesOfItem(atPath: path)
                let mode = attributes[.posixPermissions] as? Int ?? -1
                #expect(mode & 0o077 == 0, "\(name) has mode \(String(mode, radix: 8))")
            }
        }

        @Test func `the store of a killed broker is sound`() async throws {
            let broker = try await TestBroker()
            let alice = try await broker.client("alice")
            try broker.addUsers("bob")
            for number in 0..<200 {
                alice.send(
                    OutgoingMessage(to: .user("bob"), text: "\(number)", grade: .once)
                ) { _ in }
            }
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "last"))
            try await broker.killNow()
            #expect(try await broker.verifyStore() == .code(0))
            await alice.close()
        }
    }
}
