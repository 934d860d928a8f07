// A server that says one thing, whatever it is asked.

import Foundation
import TestSurroundings
import class Threads.Locked

/// Sends the same answer to each client after its first bytes, and reads on.
final class AnsweringServer: Sendable {
    let port: UInt16
    private let descriptor: Int32
    private let count = Locked(0)

    /// The clients so far.
    var clientCount: Int { count.withLock { $0 } }

    init(_ answer: [UInt8]) throws {
        let listener = try LoopbackListener(backlog: 8)
        let descriptor = listener.descriptor
        port = listener.port
        self.descriptor = descriptor
        let count = count
        let thread = Thread {
            while true {
                let peer = accept(descriptor, nil, nil)
                guard peer >= 0 else { return }
                count.withLock { $0 += 1 }
                var chunk = [UInt8](repeating: 0, count: 4_096)
                if recv(peer, &chunk, chunk.count, 0) > 0 {
                    _ = send(peer, answer, answer.count, Int32(MSG_NOSIGNAL))
                    while recv(peer, &chunk, chunk.count, 0) > 0 {}
                }
                close(peer)
            }
        }
        thread.start()
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
