// The response that carries an event stream (HTML Living Standard, 9.2). It has no length: it ends
// with its connection.

import BrokerTerms

public enum HTTPEventStream {
    /// The head of the response, and the first field of the stream.
    ///
    /// - Parameters:
    ///   - retryMilliseconds: how long a client waits before it asks for the rest.
    ///   - cors: which pages of other origins may read the stream; nil for none.
    public static func head(
        unixSeconds: UInt64, retryMilliseconds: UInt64, cors: CORSHeaders? = nil
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        HTTPResponse.appendStatusLine(.ok, to: &bytes)
        bytes.append("Date: ")
        HTTPDate.append(unixSeconds: unixSeconds, to: &bytes)
        bytes.append("\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n")
        cors?.append(to: &bytes)
        // Read by nginx, which would otherwise wait until a buffer is full.
        bytes.append("X-Accel-Buffering: no\r\nConnection: close\r\n\r\nretry: ")
        bytes.append(decimal: retryMilliseconds)
        bytes.append("\n\n")
        return bytes
    }

    /// A comment, which clients ignore.
    public static let comment = [UInt8](":\n\n".utf8)

    /// The response that refuses a stream: problem details (RFC 9457).
    ///
    /// - Parameters:
    ///   - detail: the reason for people.
    ///   - retryAfterSeconds: 0 for none.
    ///   - cors: which pages of other origins may read it; nil for none.
    public static func refusal(
        _ status: HTTPStatus, _ reason: ReasonCode, detail: StaticString, retryAfterSeconds: UInt64,
        cors: CORSHeaders? = nil
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.write("type", "about:blank")
        writer.write("title", status.phrase)
        writer.write("status", UInt64(status.rawValue))
        writer.write("detail", detail)
        writer.write("code") { (writer: inout JSONWriter) in
            writer.write("number", UInt64(reason.rawValue))
            writer.write("name", reason.name)
        }
        let content = writer.end()
        var bytes: [UInt8] = []
        HTTPResponse.appendStatusLine(status, to: &bytes)
        bytes.append("Content-Type: application/problem+json\r\nContent-Length: ")
        bytes.append(decimal: UInt64(content.count))
        bytes.append("\r\n")
        if status == .unauthorized {
            bytes.append("WWW-Authenticate: Bearer realm=\"martlet\"\r\n")
        }
        if retryAfterSeconds > 0 {
            bytes.append("Retry-After: ")
            bytes.append(decimal: retryAfterSeconds)
            bytes.append("\r\n")
        }
        cors?.append(to: &bytes)
        bytes.append("Cache-Control: no-store\r\nConnection: close\r\n\r\n")
        return bytes + content
    }
}
