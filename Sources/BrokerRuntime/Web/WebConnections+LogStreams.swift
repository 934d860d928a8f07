// Event streams of operators: the lines of the log, as they are written. A stream is no client of
// the core; the loop writes its lines at the end of a turn, and a stream whose client does not read
// misses lines and is told how many.

import BrokerTerms
import Credentials
import Dialects
import NetTransport
import Primitives
import WireFormat

/// An event stream of an operator.
struct LogStream {
    /// As it was valid last.
    let credential: APICredential
    /// The number of the last line that was sent, or that is known to be missed.
    var last: UInt64
    /// When the credential is verified again.
    var revalidationDue: Instant
    /// Which pages of other origins may read the stream; nil for none.
    let cors: CORSHeaders?

    /// Lines that a turn writes to one stream: about 16 KB.
    static let linesPerTurnMaximum = 64
    /// How often the credential of a stream with lines is verified.
    static let revalidationSeconds: UInt64 = 1
}

extension WebRequest {
    /// Whether the credential has the form of an operator's token.
    var hasOperatorToken: Bool {
        guard let token = bearerToken else { return false }
        return APICredentials.isOperatorToken(token.bytes(in: bytes).bytes)
    }

    /// Whether the credential can be an operator's token.
    var isOfOperator: Bool {
        guard let token = bearerToken else { return false }
        return OperatorToken(presented: token.bytes(in: bytes).bytes) != nil
    }
}

extension WebConnections {
    /// Decides on an operator's request for an event stream, on a listener that serves the API.
    func openLogStream(
        _ request: WebRequest, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        let credential: APICredential
        do throws(APICredentials.Refusal) {
            credential = try self.credential(
                of: request, unixSeconds: clock.moment(at: loop.now).unixSeconds)
        } catch {
            return refuseCredential(request, from: connection, error.detail, in: loop)
        }
        guard request.head.query == nil else {
            return .respond(
                .problem(
                    .badRequest,
                    "the stream of an operator has no members; it begins with "
                        + "Last-Event-ID", reason: .malformedPacket))
        }
        var last: UInt64?
        if let field = request.head.lastEventID, !field.isEmpty {
            last = UInt64(String(decoding: field.bytes(in: request.bytes), as: UTF8.self))
            guard last != nil else {
                return .respond(
                    .problem(
                        .badRequest, "Last-Event-ID is not the id of an event",
                        reason: .malformedPacket))
            }
        }
        return .logStream(
            LogStream(
                credential: credential, last: last ?? .max, revalidationDue: loop.now,
                cors: request.cors))
    }

    /// Begins the response of an operator's stream.
    mutating func beginLogStream(
        _ stream: LogStream, answering answer: Answer, on connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        let handle = credentials.shards.loopHandles[Int(loopIndex)]
        guard let last = log.feed.beginStream(of: loopIndex, handle) else {
            var response = HTTPResponse.problem(
                .unavailable, "there are \(LogFeed.streamCountMaximum) streams of operators",
                reason: .quotaExceeded)
            response.retryAfterSeconds = 10
            response.closes = true
            return respond(response, to: answer, of: connection, in: &loop)
        }
        services.listeners.count(isRefusal: false)
        var stream = stream
        // Without an id the stream begins now; with one of an earlier start, with the oldest line.
        if stream.last == .max { stream.last = last } else if stream.last > last { stream.last = 0 }
        connections[connection]?.phase = .logStream(stream)
        logStreams.insert(connection)
        loop.write(
            HTTPEventStream.head(
                unixSeconds: clock.moment(at: loop.now).unixSeconds,
                retryMilliseconds: JSONLimits.retryMilliseconds, cors: stream.cors),
            to: connection)
        loop.acceptConnection(connection, silenceMilliseconds: JSONLimits.heartbeatMilliseconds)
    }

    /// Notes that a connection has closed.
    mutating func endLogStream(_ connection: ConnectionID) {
        guard !logStreams.isEmpty, logStreams.remove(connection) != nil else { return }
        connections[connection]?.phase = .logStream(nil)
        log.feed.endStream(of: loopIndex, unixMilliseconds: clock.moment().unixMilliseconds)
    }

    /// Writes the new lines to the streams of this loop.
    mutating func writeLogStreams(_ loop: inout some BrokerLoop & ~Copyable) {
        for connection in logStreams {
            guard case .logStream(var stream?)? = connections[connection]?.phase else { continue }
            // A client that does not read gets the rest later, as far as it is kept.
            guard loop.outgoingByteCount(of: connection) <= ScheduleLimits.unsentBytesMaximum
            else { continue }
            let page = log.feed.page(
                after: stream.last, limit: LogStream.linesPerTurnMaximum)
            guard page.last > stream.last else { continue }
            guard isValid(&stream, at: loop.now) else {
                end(connection, in: &loop)
                continue
            }
            var bytes: [UInt8] = []
            for line in page.lines {
                Self.append(missed: line.number - stream.last - 1, to: &bytes)
                Self.append(line, to: &bytes)
                stream.last = line.number
            }
            if page.lines.count < LogStream.linesPerTurnMaximum {
                // Of too many lines of one event in a second, the last ones were left out.
                Self.append(missed: page.last - stream.last, to: &bytes)
                stream.last = page.last
            } else {
                loop.nextWake = loop.now
            }
            loop.write(bytes, to: connection)
            connections[connection]?.phase = .logStream(stream)
        }
    }

    /// Verifies the credential of a stream that has nothing to send.
    mutating func keepLogStream(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard case .logStream(var stream?)? = connections[connection]?.phase else { return }
        stream.revalidationDue = loop.now
        if isValid(&stream, at: loop.now) {
            connections[connection]?.phase = .logStream(stream)
        } else {
            end(connection, in: &loop)
        }
    }

    private func isValid(_ stream: inout LogStream, at now: Instant) -> Bool {
        guard now >= stream.revalidationDue else { return true }
        stream.revalidationDue = now.advanced(bySeconds: LogStream.revalidationSeconds)
        let seconds = clock.moment(at: now).unixSeconds
        return credentials.renewed(stream.credential, unixSeconds: seconds) != nil
    }

    /// Ends a stream whose operator may not read it any more.
    private mutating func end(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        var writer = JSONWriter()
        writer.write("reason", "the token was revoked or has expired")
        loop.write(Self.event("closed", writer.end()), to: connection)
        endLogStream(connection)
        loop.close(connection, afterFlush: true)
    }

    private static func append(_ line: LogFeed.Line, to bytes: inout [UInt8]) {
        bytes += "id: \(line.number)\nevent: \(line.record.event.rawValue)\ndata: ".utf8
        // It ends with a line feed, and has no other.
        bytes += LogLine.bytes(
            line.record, format: .json, unixMilliseconds: line.unixMilliseconds, priority: false)
        bytes.append(UInt8(ascii: "\n"))
    }

    /// Tells that lines were left out before the next one.
    private static func append(missed count: UInt64, to bytes: inout [UInt8]) {
        guard count > 0 else { return }
        var writer = JSONWriter()
        writer.write("lines", count)
        bytes += event("missed", writer.end())
    }

    /// An event without an id.
    private static func event(_ name: String, _ json: [UInt8]) -> [UInt8] {
        Array("event: \(name)\ndata: ".utf8) + json + Array("\n\n".utf8)
    }
}
