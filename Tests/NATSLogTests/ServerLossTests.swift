// Servers that are killed and stopped while records are appended: what was acknowledged is in the
// stream once, at its place.

import Foundation
import NATSLog
import Replication
import TestSurroundings
import Testing
import class Threads.Locked

extension NATSLogTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct ServerLossTests {
        /// Appends numbered records until `fault` has returned and 100 more are known, then
        /// compares the stream with them.
        private func campaign(
            _ fault: @escaping @Sendable (NATSServers, LogClient) throws -> Void
        ) async throws {
            try await onThread {
                let servers = try NATSServers()
                let client = try LogClient(settings(servers))
                let watcher = try LogClient(settings(servers), byteCountMaximum: nil)
                let isOver = Locked<Result<Void, Error>?>(nil)
                Thread {
                    let result = Result { try fault(servers, watcher) }
                    isOver.withLock { $0 = result }
                }.start()
                var last: UInt64 = 0
                var rest = 100
                while rest > 0 {
                    _ = try client.appendSurely(record(last + 1), after: last)
                    last += 1
                    if let result = isOver.withLock({ $0 }) {
                        try result.get()
                        rest -= 1
                    }
                }
                let follower = try LogClient(
                    settings(servers, asksSync: false), byteCountMaximum: nil)
                try follower.requireRecords(1...last, record)
                #expect(try client.read(at: last + 1) == .nothing)
            }
        }

        private func leader(_ servers: NATSServers, _ client: LogClient) throws -> Int {
            let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
            while Date() < end {
                if let name = try? client.log.describe().leader,
                    let index = servers.index(named: name)
                {
                    return index
                }
                client.wait(milliseconds: 20)
            }
            throw LogFailure(description: "the stream has no leader")
        }

        @Test func `a leader that is killed takes no acknowledged record with it`() async throws {
            try await campaign { servers, client in
                for _ in 0..<2 {
                    let index = try leader(servers, client)
                    servers.kill(index)
                    let next = try leader(servers, client)
                    #expect(next != index)
                    try servers.start(index)
                    try upToDate(client)
                }
            }
        }

        @Test func `a leader that is stopped and continues changes nothing`() async throws {
            try await campaign { servers, client in
                let index = try leader(servers, client)
                servers.signal(index, SIGSTOP)
                defer { servers.signal(index, SIGCONT) }
                let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
                while try leader(servers, client) == index {
                    guard Date() < end else { throw LogFailure(description: "no other leader") }
                }
                servers.signal(index, SIGCONT)
                try upToDate(client)
            }
        }

        @Test func `all servers may be killed at once`() async throws {
            try await campaign { servers, client in
                for index in 0..<3 { servers.kill(index) }
                for index in 0..<3 { try servers.start(index) }
                _ = try leader(servers, client)
            }
        }

        @Test func `a leader that steps down is no loss`() async throws {
            try await campaign { servers, client in
                let administration = try StreamAdministration(servers)
                for _ in 0..<3 {
                    try administration.stepDown("orders")
                    _ = try leader(servers, client)
                }
            }
        }

        /// Waits until each server has all records, so that the loss of another one is no loss of
        /// two.
        private func upToDate(_ client: LogClient) throws {
            let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
            while Date() < end {
                if let peers = try? client.log.describe().peers, peers.count == 3,
                    peers.allSatisfy(\.isCurrent)
                {
                    return
                }
                client.wait(milliseconds: 20)
            }
            throw LogFailure(description: "a server has not caught up")
        }
    }
}

private func record(_ number: UInt64) -> [UInt8] {
    Array("record \(number) ".utf8)
        + [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 200)
}
