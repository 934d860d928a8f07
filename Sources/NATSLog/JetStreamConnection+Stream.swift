// Questions about the stream and its servers.

import CNATS
import JSON5
import Replication

extension JetStreamConnection {
    /// The stream as its leader describes it.
    func describe(
        stream: String, milliseconds: Int64 = JetStreamLimits.questionMilliseconds
    ) throws(JetStreamError) -> StreamDescription {
        let answer = try ask("$JS.API.STREAM.INFO.\(stream)", milliseconds: milliseconds)
        return try Self.description(answer, stream: stream)
    }

    /// Creates the stream. One that exists with the same configuration is the same success.
    func create(
        stream: String, subject: String, byteCountMaximum: Int64, replicas: Int
    ) throws(JetStreamError) -> StreamDescription {
        let configuration = StreamRequirements.configuration(
            name: stream, subject: subject, byteCountMaximum: byteCountMaximum, replicas: replicas)
        let answer = try ask("$JS.API.STREAM.CREATE.\(stream)", configuration)
        return try Self.description(answer, stream: stream)
    }

    private static func description(
        _ answer: ServerAnswer, stream: String
    ) throws(JetStreamError) -> StreamDescription {
        if let error = answer.error {
            guard case .refused(let code, let text) = error else { throw error }
            switch code {
            case Int(JSStreamNotFoundErr.rawValue): throw .absent(stream: stream)
            case Int(JSClusterNotAvailErr.rawValue), Int(JSClusterNotLeaderErr.rawValue):
                throw .leaderless(text)
            default: throw error
            }
        }
        guard let description = StreamDescription(answer) else {
            throw .refused(code: 0, text: "the description of stream \(stream) has no state")
        }
        return description
    }

    /// The version of the server to which the connection goes; nil if it does not tell it.
    func serverVersion() throws(JetStreamError) -> ServerVersion? {
        let answer = try ask("$SYS.REQ.USER.INFO")
        return answer["server"]?["ver"]?.text.flatMap(ServerVersion.init)
    }

    /// What a server of the cluster does after a write. The connection must be one of the system
    /// account.
    func durability(ofServer name: String) throws(JetStreamError) -> ServerDurability {
        let answer = try ask(
            "$SYS.REQ.SERVER.PING.JSZ",
            "{\"server_name\":\(JSONText.quoted(name)),\"exact_match\":true}",
            milliseconds: JetStreamLimits.tryMilliseconds)
        return ServerDurability(
            name: name,
            version: answer["server"]?["ver"]?.text.flatMap(ServerVersion.init),
            syncsAlways: answer["data"]?["config"]?["sync_always"]?.isTrue ?? false)
    }
}

/// What a server tells of itself to the system account.
struct ServerDurability: Hashable, Sendable {
    let name: String
    let version: ServerVersion?
    let syncsAlways: Bool

    /// Why the server cannot keep the strict promise; nil if it can.
    var weakness: String? {
        guard let version else { return "server \(name) does not tell its version" }
        if version < JetStreamLimits.serverVersionMinimum {
            return "server \(name) has version \(version), older than "
                + "\(JetStreamLimits.serverVersionMinimum)"
        }
        if !syncsAlways {
            return "server \(name) runs without sync_interval: always: a loss of power of several "
                + "servers loses acknowledged messages"
        }
        return nil
    }
}
