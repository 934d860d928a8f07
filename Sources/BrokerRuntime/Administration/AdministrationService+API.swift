// Executes requests of the HTTP API on the administration thread.

import Administration
import BrokerTerms
import NetTransport
import WireFormat

extension AdministrationService {
    /// Executes the requests that wait, and wakes the loops that have answers.
    func answerRequests() {
        let queue = listeners.web.requests
        for _ in 0..<APIQueue.countMaximum {
            guard let request = queue.next() else { return }
            queue.finish(request, with: answer(request))
            shared.loopHandles[Int(request.loop)].wake()
        }
        // More may wait; the socket has its turn first.
        queue.wakeExecutor()
    }

    private func answer(_ request: APIRequest) -> HTTPResponse {
        let operation = request.operation
        var response: HTTPResponse
        do throws(AdministrationRefusal) {
            let command = try operation.command(
                path: request.path, query: request.query.map { ($0.name, $0.value) },
                content: request.content)
            response = HTTPResponse(
                HTTPStatus(rawValue: operation.status) ?? .ok, contentType: "application/json",
                content: try execute(command, replyingAs: .object))
        } catch {
            response = .problem(
                HTTPStatus(rawValue: error.httpStatus) ?? .badRequest, error.message,
                reason: ReasonCode(rawValue: error.reason) ?? .unspecifiedError)
        }
        if operation.changes {
            log.write(
                operatorRequest: operation, by: request.operatorName, from: request.address,
                target: request.target, status: response.status)
        }
        return response
    }
}

extension LogWriter {
    /// Writes who changed something over the HTTP API, or tried to.
    func write(
        operatorRequest operation: APIOperation, by name: String, from address: SocketAddress,
        target: String, status: HTTPStatus
    ) {
        write(
            status.rawValue < 400 ? .info : .warning, .operatorRequest,
            fields: [
                "operator": .text(name), "address": .text("\(address)"),
                "request": .text(operation.kind.rawValue),
                "method": .text(operation.method.rawValue), "target": .text(target),
                "status": .number(status.rawValue),
            ])
    }
}
