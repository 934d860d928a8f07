// Clients that connect, publish and leave: half of them disconnect normally, and the broker sends
// the wills of the others.

import Foundation
import TestSurroundings
import class Threads.Locked

/// MQTT clients, one after the other, on a thread of their own.
final class Churn: Sendable {
    /// Names are used again, so that the broker's users are no more after hours than after minutes.
    private static let nameCount = 100

    private struct State {
        /// At first, until there is somebody who waits for the wills.
        var isPaused = true
        var isBusy = false
        var isOver = false
        /// Numbers of the wills that must come.
        var wills: Set<Int> = []
        var cycleCount = 0
        var failures: [String] = []
    }

    private let state = Locked(State())
    /// Signalled when the state changed while the thread may be waiting.
    private let changed = DispatchSemaphore(value: 0)

    init(port: UInt16, pauseSeconds: Double) {
        Thread { [self] in
            var number = 0
            while begin() {
                number += 1
                do {
                    try Self.cycle(number, port)
                    end(number, nil)
                } catch {
                    end(number, "cycle \(number): \(error)")
                }
                _ = changed.wait(timeout: .now() + pauseSeconds)
            }
        }.start()
    }

    var wills: Set<Int> { state.withLock { $0.wills.unshared } }
    var cycleCount: Int { state.withLock { $0.cycleCount } }
    var failures: [String] { state.withLock { $0.failures.unshared } }

    /// Lets nobody come any more, and waits for who is there.
    func pause() async throws {
        state.withLock { $0.isPaused = true }
        try await eventually("the end of a cycle") { state.withLock { !$0.isBusy } }
    }

    func resume() {
        state.withLock { $0.isPaused = false }
        changed.signal()
    }

    func stop() {
        state.withLock { $0.isOver = true }
        changed.signal()
    }

    // MARK: - The thread

    /// Waits while it is paused.
    ///
    /// - Returns: false when it is over.
    private func begin() -> Bool {
        while true {
            let goesOn: Bool? = state.withLock { state in
                if state.isOver { return false }
                if state.isPaused { return nil }
                state.isBusy = true
                return true
            }
            if let goesOn { return goesOn }
            changed.wait()
        }
    }

    private func end(_ number: Int, _ failure: String?) {
        state.withLock { state in
            state.isBusy = false
            state.cycleCount += 1
            if let failure {
                state.failures.append(failure)
            } else if Self.vanishes(number) {
                state.wills.insert(number)
            }
        }
    }

    private static func vanishes(_ number: Int) -> Bool { number % 2 == 1 }

    private static func cycle(_ number: Int, _ port: UInt16) throws {
        let peer = try MQTTPeer(number % 3 == 0 ? .v311 : .v5, port: port)
        var options = MQTTPeer.ConnectOptions()
        options.will = MQTTPeer.Will(topic: "soak/wills", payload: "will \(number)", qos: 1)
        let connack = try peer.connect("churn-\(number % nameCount)", options)
        guard connack.code == 0 else { throw TestFailure("CONNACK with \(connack.code)") }
        try peer.subscribe(("churn/+/listeners", 1))
        try peer.publish("churn/\(number)/nobody", "for nobody", qos: 1 + UInt8(number / 2 % 2))
        if vanishes(number) { peer.drop() } else { try peer.disconnect() }
    }
}
