// What a web listener does for a request.

import Dialects
import SourceInterfaces
import WireFormat

/// A client that goes on with WebSocket.
struct WebSocketClient {
    /// The index of the terms of its packets.
    let terms: UInt8
    /// How it speaks JSON; nil for the packets of MQTT and MRT.
    let json: JSONForm?
    /// For whom the holder of an app's key connects; nil if the handshake names nobody.
    let actingUser: [UInt8]?
    /// How the messages of an interface of another system are written; nil for the broker's own.
    let form: SocketForm?
}

/// What a request leads to.
enum WebAction {
    case respond(HTTPResponse, detail: StaticString? = nil)
    case metrics(PrometheusText.Form)
    /// A request for the administration thread, which has no content.
    case api(APIRequest)
    /// A request to an interface of another system, without content.
    case interface(SourceCall)
    /// A request for the administration thread whose content follows.
    case content(APIContent)
    case file(StoredFileRequest)
    /// The handshake is the whole response; then the client speaks WebSocket.
    case webSocket(handshake: [UInt8], WebSocketClient)
    case eventStream(EventStreamLogin)
    case logStream(LogStream)

    /// Why bytes after the head are refused; nil if they may be another request or its content.
    var refusalOfMore: StaticString? {
        switch self {
        case .respond, .metrics, .api, .interface, .content, .file: nil
        // A client sends no frame before it has the answer (RFC 6455, 4.1).
        case .webSocket: "data before the answer to the handshake"
        case .eventStream, .logStream: "data after the request of a stream"
        }
    }
}
