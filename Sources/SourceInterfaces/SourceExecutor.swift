// Executes the requests of all interfaces, one at a time, and gives each refusal the form of its
// interface.

import Administration

/// Answers requests to interfaces.
public struct SourceExecutor {
    private let operations: any SourceOperations

    public init(operations: any SourceOperations) {
        self.operations = operations
    }

    /// - Parameter check: of the password; nil for a request without one.
    public func answer(_ request: SourceRequest, check: PasswordCheck?) -> SourceAnswer {
        do throws(SourceRefusal) {
            return try execute(request, check)
        } catch {
            return Self.answer(error, at: request.route.interface)
        }
    }

    /// A refusal in the form of an interface.
    public static func answer(_ refusal: SourceRefusal, at interface: SourceInterface)
        -> SourceAnswer
    {
        let value: SourceValue =
            switch interface {
            case .rest, .registration, .leanmessage: .object(["error": .text(refusal.text)])
            case .quickblox: .object(["errors": .array([.text(refusal.text)])])
            case .diuit:
                .object(["code": .count(refusal.status), "message": .text(refusal.text)])
            }
        return SourceAnswer(refusal.status, value)
    }

    private func execute(
        _ request: SourceRequest, _ check: PasswordCheck?
    ) throws(SourceRefusal) -> SourceAnswer {
        switch request.route {
        case .register, .passwordLogin:
            guard let check else { throw SourceRefusal(400, "the password was not checked") }
            return try RESTInterface(operations: operations).finish(check)
        case .createConversation:
            return try RESTInterface(operations: operations).create(request)
        case .listConversations:
            return try RESTInterface(operations: operations).list(request)
        case .listDialogs: return try quickBlox(request).listDialogs(request)
        case .createDialog: return try quickBlox(request).createDialog(request)
        case .updateDialog(let name): return try quickBlox(request).updateDialog(name, request)
        case .listMessages: return try quickBlox(request).listMessages(request)
        case .createMessage: return try quickBlox(request).createMessage(request)
        case .updateMessages(let names):
            return try quickBlox(request).updateMessages(names, request)
        case .deleteMessages(let names): return try quickBlox(request).deleteMessages(names)
        case .makeNonce: return DiuitLogin(operations: operations).nonce()
        case .exchangeToken: return try DiuitLogin(operations: operations).exchange(request)
        case .socketEvent:
            preconditionFailure("\(request.route) is answered by a message")
        }
    }

    /// The message that answers an event on a socket, empty for none, and whether it is a refusal.
    public func answer(
        socketEvent request: SourceRequest, _ form: SocketForm
    ) -> (text: [UInt8], isRefusal: Bool) {
        var event: SocketEvent?
        do throws(SourceRefusal) {
            let found = try SocketEvent(request.content, form)
            event = found
            let holder = try request.holder()
            let interface = DiuitInterface(
                operations: operations, app: holder.app, user: holder.user)
            return (form.answer(try interface.answer(found), to: found.number), false)
        } catch {
            let text = form.refusal(
                code: Int(error.status), error.text, of: event?.name, to: event?.number)
            return (text, true)
        }
    }

    private func quickBlox(_ request: SourceRequest) throws(SourceRefusal) -> QuickBloxInterface {
        let holder = try request.holder()
        return QuickBloxInterface(
            operations: operations, app: holder.app, user: holder.user, host: request.host)
    }
}
