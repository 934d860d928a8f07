// JSON over WebSocket and event streams, with clients of others against a real broker.

import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct JSONClientTests {
        private static let script =
            URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().path + "/RealClients/json_clients.py"

        private func words(_ broker: TestBroker) throws -> [String] {
            [
                "-B", Self.script, "\(broker.wsPort)", try broker.token("alice"),
                try broker.token("bob"), try broker.variable("MARTLET_APP_KEY"),
            ]
        }

        @Test(arguments: [("exchange", 7), ("faults", 1), ("streams", 3), ("acting", 3)])
        func `clients exchange all that there is`(part: String, count: Int) async throws {
            let broker = try await TestBroker(web: true)
            try broker.addUsers("carol", "jürgen%")
            let script = try ChildProcess("/usr/bin/python3", try words(broker) + [part])
            let exit = try await script.exit(within: 60)
            #expect(exit == .code(0), "is python3-websockets there? \(script.text)")
            #expect(
                script.lines.filter { $0.hasSuffix(" well") }.count == count, "\(script.text)")
            if part == "exchange" {
                #expect(try broker.counter("retained messages/count") == 1)
            }
        }

        @Test func `streams that are opened at once let others be answered between them`()
            async throws
        {
            let broker = try await TestBroker(
                "limits.connectionsPerAddress=1000", "limits.pendingLogins=1000",
                "limits.authenticationSeconds=300", web: true)
            let script = try ChildProcess(
                "/usr/bin/python3",
                [
                    "-B", Self.script.replacing("json_clients", with: "event_streams"),
                    "\(broker.wsPort)", try broker.variable("MARTLET_APP_KEY"), "250", "60",
                ])
            let exit = try await script.exit(within: 80)
            #expect(exit == .code(0), "\(script.text)")
            // 250 streams take 16 turns; a client who asks again and again gets an answer in one
            // of two. If one turn opens all streams, there is one answer.
            let answered = Int(script.lines.last ?? "") ?? 0
            #expect(answered >= 4, "\(script.text)")
        }

        /// Each of its listeners has terms for MQTT, and others for MRT and JSON.
        @Test func `a device is shown with its address, its listener and its credential`()
            async throws
        {
            let api = try await APIBroker()
            try api.broker.addUsers("carol")
            let key = try api.broker.variable("MARTLET_APP_KEY")
            var streams: [ChildProcess] = []
            for (scheme, port) in [("http", api.http), ("https", api.https)] {
                streams.append(
                    try ChildProcess(
                        "/usr/bin/curl",
                        [
                            "-sSN", "--max-time", "600", "--cacert", api.broker.authority,
                            "-H", "Authorization: Bearer \(key)", "-H", "Martlet-User: carol",
                            "\(scheme)://localhost:\(port)/api/v1/events?app=demo&device=\(scheme)",
                        ]))
            }
            for stream in streams { _ = try await stream.line(with: "connected") }
            // A loop that is paused for half a second is left out, so both are asked for again.
            let end = ContinuousClock.now + .seconds(60)
            var devices: [[String: Any]] = []
            func isComplete(_ device: [String: Any]) -> Bool { device["listener"] is String }
            repeat {
                let answers = try await APIScript.ask(
                    [APICall("GET", "/api/v1/apps/demo/users/carol", token: api.own)],
                    port: api.http)
                devices = try #require(answers[0].object["devices"] as? [[String: Any]])
            } while !devices.allSatisfy(isComplete) && ContinuousClock.now < end
            #expect(devices.count == 2)
            for device in devices {
                let scheme = try #require(device["device"] as? String)
                let listener = device["listener"] as? String ?? ""
                let port = scheme == "http" ? api.http : api.https
                #expect(listener.hasPrefix("\(scheme)://") && listener.hasSuffix(":\(port)"))
                let address = device["address"] as? String ?? ""
                #expect(address.hasPrefix("127.0.0.1:") || address.hasPrefix("[::1]:"))
                let credential = device["credential"] as? [String: String]
                #expect(credential == ["kind": "appKey", "id": "default"])
            }
            var shown = ""
            repeat {
                let command = try ChildProcess(
                    "martlet", ["user", "show", "carol"],
                    environment: try api.broker.environment("operator"))
                #expect(try await command.exit() == .code(0))
                shown = command.text
            } while !shown.contains("https://") && ContinuousClock.now < end
            #expect(shown.contains("appKey default") && shown.contains("https://"), "\(shown)")
            for stream in streams { stream.signal(SIGTERM) }
        }

        @Test func `a stream goes on exactly where it was, over kills of the broker`()
            async throws
        {
            let broker = try await TestBroker(web: true)
            let words = try words(broker)
            let folder = broker.directory
            let reader = try ChildProcess(
                "/usr/bin/python3", words + ["read", "\(folder)/read.txt"])
            _ = try await reader.line(with: "reading")
            let sender = try ChildProcess(
                "/usr/bin/python3", words + ["send", "\(folder)/sent.txt"])
            for count in [50, 130, 210, 300] {
                _ = try await sender.line(with: "\(count) results")
                try await broker.killNow()
                try await broker.start()
                for client in [reader, sender] { client.signal(SIGUSR1) }
            }
            #expect(try await sender.exit(within: 60) == .code(0), "\(sender.text)")
            #expect(try await reader.exit(within: 60) == .code(0), "\(reader.text)")
            #expect(FileManager.default.fileExists(atPath: "\(folder)/read.txt"))
        }
    }
}
