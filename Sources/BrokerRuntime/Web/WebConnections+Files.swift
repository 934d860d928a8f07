// Responses with files, which are sent in pieces: the next piece is read when the one before it has
// left, so that a client that reads slowly has one piece in memory.

import BrokerTerms
import NetTransport
import Primitives
import SourceInterfaces
import WireFormat

extension WebConnections {
    /// Decides on a request for a file.
    func routeFile(
        _ path: [String], _ request: WebRequest, from peer: SocketAddress
    ) -> WebAction {
        let nothing = WebAction.respond(.text(.notFound, "there is nothing here"))
        guard services.interfaces.files != nil, path.count == 4,
            let app = FileStore.app(ofPlace: path[2]),
            services.interfaces.apps.has(.diuit, app: app), let name = StoredFileName(path[3])
        else { return nothing }
        guard request.isRead else {
            var response = HTTPResponse.text(.methodNotAllowed, "only GET and HEAD")
            response.allowed = ["GET", "HEAD"]
            return .respond(response)
        }
        guard !request.head.hasContent else {
            return .respond(.text(.contentTooLarge, "no content is read here"))
        }
        return .file(
            StoredFileRequest(
                place: path[2], name: name, peer: peer,
                range: request.head.range.map {
                    String(decoding: $0.bytes(in: request.bytes), as: UTF8.self)
                },
                isHead: request.head.method == .head, closes: !request.head.isPersistent,
                cors: request.cors))
    }

    /// Begins a response. Nothing is read from the connection until it is sent.
    mutating func beginFile(
        _ request: StoredFileRequest, answering answer: Answer, on connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let service = services.interfaces.files else { return }
        connections[connection]?.phase = .file(answer, isReading: true)
        files.insert(connection)
        loop.pauseReading(connection, for: .answers)
        service.begin(request, for: connection, on: loopIndex)
    }

    /// Sends the pieces that were read, and asks for the next ones.
    mutating func sendFiles(_ loop: inout some BrokerLoop & ~Copyable) {
        guard let service = services.interfaces.files else { return }
        for (connection, piece) in service.takeAnswers(for: loopIndex) {
            guard case .file(let answer, isReading: true)? = connections[connection]?.phase else {
                continue
            }
            send(piece, to: connection, answer, in: &loop)
        }
        for connection in files {
            guard case .file(let answer, isReading: false)? = connections[connection]?.phase
            else { continue }
            if loop.outgoingByteCount(of: connection) == 0 {
                connections[connection]?.phase = .file(answer, isReading: true)
                service.continueReading(for: connection, on: loopIndex)
                // Its client has taken a piece.
                loop.restartAuthentication(connection)
            } else if !loop.isSendBlocked(connection) {
                // This turn sends the piece when it ends, and nothing else may begin the next.
                loop.nextWake = loop.now
            }
        }
    }

    private mutating func send(
        _ piece: StoredFilePiece, to connection: ConnectionID, _ answer: Answer,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        var refusal: HTTPResponse?
        switch piece {
        case .bytes(let bytes, let isLast):
            loop.write(bytes, to: connection)
            guard isLast else {
                connections[connection]?.phase = .file(answer, isReading: false)
                return
            }
            services.listeners.count(isRefusal: false)
        case .absent: refusal = .text(.notFound, "there is no such file")
        case .busy: refusal = Self.busy
        case .failed:
            // The client sees that the content is shorter than its length.
            files.remove(connection)
            loop.close(connection, afterFlush: true)
            return
        }
        files.remove(connection)
        connections[connection]?.phase = .head(isBegun: false)
        if let refusal { respond(refusal, to: answer, of: connection, in: &loop) }
        if refusal == nil, answer.closes {
            connections[connection]?.phase = .done
            loop.close(connection, afterFlush: true)
        } else {
            loop.restartAuthentication(connection)
            loop.resumeReading(connection, from: .answers)
        }
    }

    /// A connection with a response has closed.
    mutating func endFile(_ connection: ConnectionID) {
        guard files.remove(connection) != nil else { return }
        services.interfaces.files?.end(connection)
    }
}
