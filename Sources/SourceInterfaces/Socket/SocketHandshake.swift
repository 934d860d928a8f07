// The query of a handshake of Engine.IO: only version 4 over WebSocket. Clients that begin with
// polling get the answer that tells them to use another transport.

public enum SocketHandshake {
    /// What is wrong, as servers of Engine.IO say it; nil for nothing.
    ///
    /// - Parameter query: its members; nil if it is malformed.
    public static func fault(of query: [String: String]?) -> SourceValue? {
        func value(_ name: String) -> String? { query?[name] }
        func fault(_ code: Int, _ message: String) -> SourceValue {
            .object(["code": .count(code), "message": .text(message)])
        }
        guard query != nil else { return fault(3, "Bad request") }
        if value("sid") != nil { return fault(1, "Session ID unknown") }
        if value("transport") != "websocket" { return fault(0, "Transport unknown") }
        return value("EIO") == "4" ? nil : fault(5, "Unsupported protocol version")
    }
}
