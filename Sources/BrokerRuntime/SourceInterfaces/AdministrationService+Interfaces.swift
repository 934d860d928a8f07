// Executes requests of clients of other systems on the administration thread, one at a time.

import Administration
import BrokerTerms
import Primitives
import SourceInterfaces
import WireFormat

extension AdministrationService {
    /// Executes the requests for interfaces that wait, and wakes the loops that have answers.
    func answerInterfaces(at now: Instant) {
        for call in interfaces.queue.takeReady(at: now) {
            if case .socketEvent(let form) = call.request.route {
                let (text, isRefusal) = answer(call, form)
                if isRefusal { interfaces.countRefusal(at: .diuit) }
                interfaces.queue.finish(call)
                interfaces.queue.deliver(text, to: call.connection, on: call.loop)
                shared.loopHandles[Int(call.loop)].wake()
                continue
            }
            let answer = answer(call)
            if answer.status >= 400 {
                interfaces.countRefusal(at: call.request.route.interface)
            }
            // Guesses are counted by address, and are not logged above the limit.
            if let user = call.check?.wrongUser,
                operators.failures.note(call.address, at: now) == nil
            {
                log.writeRefusal(
                    .authenticationFailed, of: call.address, user: user.user,
                    reason: .badUserNameOrPassword,
                    "interface \(call.request.route.interface.rawValue): wrong password")
            }
            if call.request.route == .exchangeToken, answer.status == 403,
                operators.failures.note(call.address, at: now) == nil
            {
                log.writeRefusal(
                    .authenticationFailed, of: call.address, user: "",
                    reason: .badUserNameOrPassword, "interface diuit: no valid JWT")
            }
            // A name that is taken costs a hash, too.
            if call.request.route == .register, [200, 409].contains(answer.status) {
                _ = interfaces.registrations.note(call.address, at: now)
            }
            interfaces.queue.finish(call)
            requests.deliver(
                HTTPResponse(answer), to: call.connection, number: call.number, on: call.loop)
            shared.loopHandles[Int(call.loop)].wake()
        }
    }

    private static let noLease = "this node is not the primary of its cluster now"

    private func answer(_ call: SourceCall) -> SourceAnswer {
        guard mayAnswer else {
            return SourceExecutor.answer(
                SourceRefusal(503, Self.noLease), at: call.request.route.interface)
        }
        if let app = call.request.user?.app {
            do throws(AdministrationRefusal) {
                try checkPlace(of: app)
            } catch {
                return SourceExecutor.answer(
                    SourceRefusal(503, error.message), at: call.request.route.interface)
            }
        }
        var credential = call.credential
        if let presented = credential {
            // The content may have taken seconds, in which the token was revoked.
            credential = credentials.renewed(presented, unixSeconds: clock.moment().unixSeconds)
            guard credential != nil else {
                return SourceExecutor.answer(
                    SourceRefusal(403, "the token is not valid any more"),
                    at: call.request.route.interface)
            }
        }
        // A user becomes known with the first use of a web token, as with the first login.
        if case .presented(.verified, _)? = credential, let user = call.request.user {
            do throws(AdministrationRefusal) {
                try serving(user.app).makeKnown(
                    Array(user.user.utf8), app: Array(user.app.utf8))
            } catch {
                return SourceExecutor.answer(SourceRefusal(error), at: call.request.route.interface)
            }
        }
        let backend = SourceBackend(service: self, credential: credential)
        return SourceExecutor(operations: backend).answer(call.request, check: call.check)
    }
}

extension AdministrationService {
    /// The message that answers an event on a socket.
    private func answer(
        _ call: SourceCall, _ form: SocketForm
    ) -> (text: [UInt8], isRefusal: Bool) {
        guard mayAnswer else {
            return (form.refusal(code: 503, Self.noLease, of: nil, to: nil), true)
        }
        guard let presented = call.credential,
            let credential = credentials.renewed(
                presented, unixSeconds: clock.moment().unixSeconds)
        else {
            // The broker ends the connection of a token that was revoked.
            let text = form.refusal(
                code: 403, "the token is not valid any more", of: nil, to: nil)
            return (text, true)
        }
        let backend = SourceBackend(service: self, credential: credential)
        return SourceExecutor(operations: backend).answer(socketEvent: call.request, form)
    }
}

extension HTTPResponse {
    /// The answer of an interface as a response.
    init(_ answer: SourceAnswer) {
        self.init(
            HTTPStatus(rawValue: answer.status) ?? .badRequest, contentType: "application/json",
            content: answer.content)
        // Another node of the cluster answers soon, or this one does again.
        if status == .unavailable { retryAfterSeconds = 1 }
    }
}
