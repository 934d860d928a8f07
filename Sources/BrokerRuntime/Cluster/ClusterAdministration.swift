// Answers `martlet cluster` on a Unix socket, whatever part the node has.

import Administration
import BrokerTerms
import Configuration
import Glibc
import NetTransport
import Primitives
import Replication
import Threads

/// The socket of a node, until ``stop()``.
final class ClusterAdministration {
    private let handle: LoopHandle
    private let thread: Thread

    /// - Parameter answer: the reply to the line of a request.
    init(
        _ settings: BrokerSettings, log: LogWriter, fail: @escaping BrokerServer.Failure,
        answer: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) throws(StartError) {
        let handle: LoopHandle
        let listener: Listener
        do throws(TransportError) {
            handle = try LoopHandle()
            listener = try Listener(
                unixPath: "\(settings.dataDirectory)/\(ClusterLine.socketName)")
        } catch {
            throw .transport(error)
        }
        self.handle = handle
        let handler = Box(ClusterLoopHandler(answer))
        thread = Thread(name: "cluster-admin") {
            var configuration = EventLoop.Configuration()
            configuration.connectionsMaximum = ClusterLimits.administratorsMaximum
            configuration.packetMaximum = ClusterLine.requestByteCountMaximum
            configuration.firstPacketMaximum = ClusterLine.requestByteCountMaximum
            do throws(TransportError) {
                var loop = try EventLoop(configuration, handle: handle)
                try loop.listen(on: listener)
                loop.run(&handler.value)
            } catch {
                log.write(.error, .brokerStopped, fields: ["detail": .text("\(error)")])
                fail(.other)
            }
        }
    }

    func stop() {
        handle.requestStop()
        thread.join()
    }
}

/// Reads requests and writes replies.
private struct ClusterLoopHandler: LoopHandler, ~Copyable {
    private let answer: @Sendable ([UInt8]) -> [UInt8]

    init(_ answer: @escaping @Sendable ([UInt8]) -> [UInt8]) { self.answer = answer }

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        loop.clearDeadline(of: connection)
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        var start = Int(bytes.offset)
        while let feed = loop.arena[start..<bytes.endOffset].firstIndex(of: UInt8(ascii: "\n")) {
            let reply = answer(Array(loop.arena[start..<feed]))
            _ = reply.withUnsafeBytes { loop.append($0, to: connection, .required) }
            start = feed + 1
        }
        return Consumption(consumed: start - Int(bytes.offset))
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {}
    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {}
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func woken(in loop: inout EventLoop) {}
    mutating func turnEnded(in loop: inout EventLoop) {}
    mutating func stopping(in loop: inout EventLoop) {}
}

extension ClusterNode {
    /// Executes the request in a line and returns the line with its reply.
    func answer(_ line: [UInt8]) -> [UInt8] {
        do throws(AdministrationRefusal) {
            switch try ClusterCommand(line: line) {
            case .show(let request):
                return request.line(replying: gate.show(from: view.withLock { $0 }))
            case .stepDown(let request):
                if let shard = request.shard {
                    throw AdministrationRefusal(
                        .implementationSpecificError,
                        "this node has no shards, and so none named \(shard)", cause: .unknown)
                }
                return request.line(replying: try view.stepDown())
            }
        } catch {
            return error.line
        }
    }
}
