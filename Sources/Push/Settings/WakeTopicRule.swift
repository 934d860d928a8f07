// Which topics of the other broker targets may name. The owner of a target chooses its topic, and
// senders choose what is published: without a rule, a user has the rights of the relay there.

import ClientProgram
import WireFormat

/// A filter of topics. `%u` stands for the name of the target's user.
package struct WakeTopicRule: Sendable {
    /// The name of the user is between each two.
    private let pieces: [[UInt8]]

    /// Nil if the text is no filter, or begins with `$`: such topics are the broker's own.
    package init?(_ text: String) {
        guard TopicFilter(text) != nil, !text.utf8.starts(with: "$".utf8) else { return nil }
        var pieces: [[UInt8]] = [[]]
        var rest = Array(text.utf8)[...]
        while let byte = rest.first {
            if rest.starts(with: "%u".utf8) {
                pieces.append([])
                rest = rest.dropFirst(2)
            } else {
                pieces[pieces.count - 1].append(byte)
                rest = rest.dropFirst()
            }
        }
        self.pieces = pieces
    }

    /// Whether a target of the user may have the topic.
    func permits(_ topic: String, user: String) -> Bool {
        let name = Array(user.utf8)
        // No user of the broker has such a name; it would be another filter.
        guard TextRules.isIdentifier(name.span.bytes) else { return false }
        let text = String(decoding: Array(pieces.joined(separator: name)), as: UTF8.self)
        return TopicFilter(text)?.matches(TopicLevels(Array(topic.utf8))) ?? false
    }
}

extension MQTTSettings {
    /// Whether the topic of a target is permitted: it is a topic name that is not the broker's own,
    /// and has no character for which a broker may end the connection [MQTT 5.0, 1.5.4].
    func permits(_ topic: String, user: String) -> Bool {
        guard TextRules.isTopicName(Array(topic.utf8).span.bytes),
            !topic.utf8.starts(with: "$".utf8),
            topic.unicodeScalars.allSatisfy({
                $0.properties.generalCategory != .control
                    && !$0.properties.isNoncharacterCodePoint
            })
        else { return false }
        return topics.contains { $0.permits(topic, user: user) }
    }
}
