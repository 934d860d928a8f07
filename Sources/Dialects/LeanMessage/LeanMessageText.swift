// The words and numbers of LeanMessage: conversations, types of messages, events.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

enum LeanMessageText {
    /// Begins the id of the conversation of two users; the name of the other one follows. No id of
    /// a group has a slash.
    static let userPrefix: StaticString = "user/"
    /// The code of a client that another one with its tag has replaced.
    static let conflictCode: UInt64 = 4_111

    /// Messages of a page unless the client asks for another number: those that LeanMessage pushes
    /// after a login.
    static let pageDefault: UInt64 = 20
    /// Conversations of a page: those whose unread messages LeanMessage counts.
    static let conversationsDefault: UInt64 = 50

    /// The topic of events about unread messages, before the name of the user.
    static let unreadPrefix: StaticString = "$unread/"

    static func begins(_ text: RawSpan, with prefix: StaticString) -> Bool {
        let count = prefix.utf8CodeUnitCount
        return text.byteCount >= count && text.extracting(first: count).isEqual(prefix)
    }

    // MARK: - Types of messages

    /// `t` of a text.
    static let textType: UInt8 = 0
    /// The types of apps. Those below are the broker's own, and those of LeanMessage.
    static let ownTypes: ClosedRange<UInt64> = 16...255
    /// `t` of the built-in types -1 to -6: text, image, audio, video, location, file.
    private static let builtInTypes: [UInt8] = [textType, 1, 2, 3, 5, 6]

    /// `t` of a built-in type; nil for no type.
    ///
    /// - Parameter number: the type without its sign.
    static func type(ofNegative number: UInt64) -> UInt8? {
        (1...UInt64(builtInTypes.count)).contains(number) ? builtInTypes[Int(number) - 1] : nil
    }

    /// The number of a type: negative for a built-in one.
    static func number(ofType type: UInt8) -> Int64 {
        builtInTypes.firstIndex(of: type).map { -Int64($0) - 1 } ?? Int64(type)
    }

    // MARK: - Events

    /// Begins an event of its name.
    static func begin(_ event: StaticString) -> JSONWriter {
        var writer = JSONWriter()
        writer.write("event", event)
        return writer
    }

    /// Tells a client that its login or its connection ends.
    static func ending(_ event: StaticString, _ reason: ReasonCode) -> JSONWriter {
        var writer = begin(reason == .sessionTakenOver ? "CONFLICT" : event)
        writer.write(
            "code", reason == .sessionTakenOver ? conflictCode : UInt64(reason.rawValue))
        writer.write("reason", reason.isFailure ? reason.text : reason.name)
        return writer
    }
}

extension JSONWriter {
    /// Writes the id of the conversation with a user.
    mutating func write(conversationWith user: RawSpan) {
        write("convId", user, after: LeanMessageText.userPrefix)
    }

    /// Writes a payload of a type and a text.
    mutating func write(leanContent payload: RawSpan) {
        guard payload.byteCount > 0 else { return }
        write(signed: "type", LeanMessageText.number(ofType: payload[0]))
        write("text", payload.extracting(1...))
    }
}
