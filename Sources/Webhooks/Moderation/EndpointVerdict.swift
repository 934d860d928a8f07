// The answer of an endpoint that decides: JSON, read strictly, because a wrong guess would deliver
// what was to be refused.
//
//     {"verdict": "accept"}
//     {"verdict": "refuse", "code": -4408, "reason": "no such words"}
//     {"verdict": "rewrite", "b": "****"}          or "payload", or "base64"

import JSON5
import MartletClient
import Relay
import WireFormat

/// What the broker is told about a message.
enum EndpointVerdict: Hashable {
    case accept
    case refuse(code: Int32, reason: String)
    case rewrite(code: Int32, content: [UInt8])
    /// Nobody decides now.
    case later

    /// The topic and the payload of the publication that tells it.
    func publication(about number: UInt64) -> (topic: String, payload: [UInt8]) {
        let start = "$verdict/\(number)/"
        switch self {
        case .accept: return (start + "accept", [])
        case .later: return (start + "later", [])
        case .refuse(let code, let reason):
            return (start + "refuse/\(code)", Array(reason.utf8))
        case .rewrite(let code, let content):
            return (start + (code == 0 ? "rewrite" : "rewrite/\(code)"), content)
        }
    }
}

/// Why an endpoint has not decided, for the log.
struct EndpointSilence: Error, Hashable {
    let reason: String
    /// Whether the endpoint is not well, rather than that its answer has no meaning.
    let isFault: Bool
}

extension EndpointVerdict {
    /// Reads an answer.
    ///
    /// - Parameter isTyped: whether the message has a text with a type.
    init(_ result: AttemptResult, _ content: [UInt8], isTyped: Bool) throws(EndpointSilence) {
        switch result {
        case .failed(let reason): throw EndpointSilence(reason: reason, isFault: true)
        case .answered(let status, _):
            guard status == 200 else {
                throw EndpointSilence(reason: "status-\(status)", isFault: result.isFault)
            }
        }
        guard let node = try? JSON5Parser.parse(content, isOfOthers: true),
            case .object = node.value
        else { throw Self.nonsense("no-json") }
        switch node["verdict"]?.text {
        case "accept": self = .accept
        case "refuse":
            let code = try Self.code(of: node, in: Int32.min ... -1, default: -1)
            self = .refuse(code: code, reason: try Self.reason(of: node))
        case "rewrite":
            let code = try Self.code(of: node, in: 0...Int32.max, default: 0)
            self = .rewrite(code: code, content: try Self.content(of: node, isTyped: isTyped))
        default: throw Self.nonsense("no-verdict")
        }
    }

    private static func nonsense(_ reason: String) -> EndpointSilence {
        EndpointSilence(reason: reason, isFault: false)
    }

    private static func code(
        of node: JSON5Node, in range: ClosedRange<Int32>, default code: Int32
    ) throws(EndpointSilence) -> Int32 {
        guard let member = node["code"] else { return code }
        guard case .number(let text) = member.value, let code = Int32(text), range.contains(code)
        else { throw nonsense("wrong-code") }
        return code
    }

    /// The text for the sender, as far as the broker takes it.
    private static func reason(of node: JSON5Node) throws(EndpointSilence) -> String {
        guard let member = node["reason"] else { return "" }
        guard let text = member.text else { throw nonsense("wrong-reason") }
        var reason = ""
        for scalar in text.unicodeScalars {
            let isControl = scalar.value < 0x20 || scalar.value == 0x7F
            let next = isControl ? " " : String(scalar)
            guard reason.utf8.count + next.utf8.count <= WebhookLimits.reasonByteCountMaximum
            else { break }
            reason += next
        }
        return reason
    }

    private static func content(
        of node: JSON5Node, isTyped: Bool
    ) throws(EndpointSilence) -> [UInt8] {
        if isTyped {
            guard let text = node["b"]?.text else { throw nonsense("no-content") }
            return Array(text.utf8)
        }
        if let text = node["payload"]?.text { return Array(text.utf8) }
        var content: [UInt8] = []
        guard let digits = node["base64"]?.text,
            Base64.append(decoding: Array(digits.utf8).span.bytes, to: &content)
        else { throw nonsense("no-content") }
        return content
    }
}
