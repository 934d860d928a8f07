// What the senders over HTTP have in common: a request, and what its answer means.

import JSON5
import Primitives
import Relay
import WakeTemplates

/// What the hook said.
package enum HookAnswer: Sendable {
    /// Send this.
    case content(JSON5Node)
    /// Send what would be sent without a hook.
    case template
    /// Send nothing.
    case drop
    /// No answer in time, or one that means nothing.
    ///
    /// - Parameter isWell: whether the hook answers, so that only this wake-up has no answer.
    case silent(String, isWell: Bool)
}

/// An answer of a destination over HTTP.
package struct DestinationAnswer {
    package var result: AttemptResult
    package var content: [UInt8]
    /// The time by its clock, in Unix seconds; 0 for none.
    package var serverSeconds: Int
    /// Whether there was a connection on which the request could be sent.
    package var wasConnected: Bool

    package init(
        result: AttemptResult, content: [UInt8] = [], serverSeconds: Int = 0,
        wasConnected: Bool = false
    ) {
        self.result = result
        self.content = content
        self.serverSeconds = serverSeconds
        self.wasConnected = wasConnected
    }

    /// The content as JSON, if it is that.
    var node: JSON5Node? { try? JSON5Parser.parse(content, isOfOthers: true) }

    /// A reason of the destination, where it is a word: nothing else of its answer reaches the log.
    static func word(_ text: String?) -> String {
        guard let text, !text.isEmpty, text.utf8.count <= PushLimits.reasonByteCountMaximum,
            text.utf8.allSatisfy({
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0)
                    || (0x61...0x7A).contains($0) || $0 == 0x5F
            })
        else { return "" }
        return text
    }
}

extension AttemptResult {
    /// The outcome of a request that got no complete answer.
    static func failure(_ text: String) -> SendOutcome {
        .failed(text, retryAfterSeconds: 0, isDestination: true)
    }
}
