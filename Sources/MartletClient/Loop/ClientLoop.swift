// The background thread of all clients of a process, and its command queue.

import NetTransport
import Synchronization
import Threads

/// The result of a call.
typealias Completion<Value: Sendable> = @Sendable (Result<Value, MartletError>) -> Void

/// The commands of applications to the background thread; the first value names the client.
enum ClientCommand: Sendable {
    case open(ClientBlueprint)
    case connect(UInt64, ticket: UInt64, Completion<ConnectionTerms>)
    case send(UInt64, PendingSend)
    case request(UInt64, PendingRequest)
    case cancel(UInt64, ticket: UInt64)
    case acknowledge(UInt64, InboxRecord)
    case leave(UInt64, endsSession: Bool, @Sendable () -> Void)
    /// A name was resolved, for all clients that wait for it.
    case resolved(ServerAddress, NameLookupResult)

    /// Ends the call of a command: there is no thread to execute it.
    func fail(_ error: MartletError) {
        switch self {
        case .open(let blueprint): blueprint.eventBuffer.finish()
        case .connect(_, _, let completion): completion(.failure(error))
        case .send(_, let pending): pending.completion(.failure(error))
        case .request(_, let pending): pending.completion(.failure(error))
        case .leave(_, _, let completion): completion()
        case .cancel, .acknowledge, .resolved: break
        }
    }
}

/// The parts of a new client, for the thread that will own it.
struct ClientBlueprint: Sendable {
    let identifier: UInt64
    let settings: ClientSettings
    let tls: ClientTLSContext?
    let eventBuffer: EventBuffer
}

/// A send, and its completion.
struct PendingSend: Sendable {
    let ticket: UInt64
    let send: EncodedSend
    let completion: Completion<Receipt>
}

/// A request, and its completion.
struct PendingRequest: Sendable {
    let ticket: UInt64
    let request: ClientRequest
    let completion: Completion<ClientAnswer>
}

/// Starts the background thread and passes commands to it.
final class ClientLoop: Sendable {
    /// Started with the first client, and never stopped: an idle loop sleeps.
    static let shared: Result<ClientLoop, MartletError> = start()

    private struct Queue {
        var commands: [ClientCommand] = []
        /// The reason why there is no thread to execute commands.
        var failure: MartletError?
    }

    let handle: LoopHandle
    private let queue = Locked(Queue())
    private let lastIdentifier = Atomic<UInt64>(0)

    private init(_ handle: LoopHandle) {
        self.handle = handle
    }

    func makeIdentifier() -> UInt64 {
        lastIdentifier.add(1, ordering: .relaxed).newValue
    }

    /// Passes a command to the thread. Commands are executed in order.
    func post(_ command: ClientCommand) {
        let failure = queue.withLock { queue in
            if queue.failure == nil { queue.commands.append(command) }
            return queue.failure
        }
        if let failure { command.fail(failure) } else { handle.wake() }
    }

    /// The commands that were passed since the last call.
    func takeCommands() -> [ClientCommand] {
        queue.withLock { queue in
            defer { queue.commands = [] }
            return queue.commands
        }
    }

    private func fail(_ error: MartletError) {
        let commands = queue.withLock { queue in
            queue.failure = error
            defer { queue.commands = [] }
            return queue.commands
        }
        for command in commands { command.fail(error) }
    }

    // MARK: - The thread

    private static func start() -> Result<ClientLoop, MartletError> {
        do throws(TransportError) {
            let loop = ClientLoop(try LoopHandle())
            guard Thread.detach(name: "martlet-client", { loop.run() }) else {
                return .failure(.system("cannot create a thread for the client"))
            }
            return .success(loop)
        } catch {
            return .failure(.system("\(error)"))
        }
    }

    private func run() {
        do throws(TransportError) {
            var events = try EventLoop(handle: handle)
            var handler = ClientHandler(self)
            events.run(&handler)
        } catch {
            fail(.system("\(error)"))
        }
    }
}
