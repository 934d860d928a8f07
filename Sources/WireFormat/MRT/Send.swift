// SEND, a message from a client to one user, a list, a group, everybody, or a plain topic.
//
//     flags  3: raw payload   2: options   1-0: grade
//     | varint number (grade > 0) | options | target | payload |
//     options  | bits | string8 message id | varint expiry s | varint time, ms | stringv fields |
//              each by its bit, and bits for messages that are kept or retained
//     payload  | t | b, UTF-8 |   or, raw, any bytes

import Primitives

extension MRT {
    public struct Send: Hashable, Sendable, Packet {
        public var grade: Grade
        /// The place in the sender's outbox; 0 exactly when the grade is transient.
        public var number: UInt64
        /// The application's id, 1...64 bytes; empty for none.
        public var messageIdentifier = ByteRange.empty
        /// Seconds until the message expires; 0 for the broker's default.
        public var expirySeconds: UInt32 = 0
        /// When the sender made it, Unix milliseconds; 0 for now.
        public var time: UInt64 = 0
        /// The message is kept in the conversation of its sender and its receivers.
        public var isKept = false
        /// The message is not kept, also where the group or the app keeps messages by default.
        public var isNeverKept = false
        /// The message is kept only: nobody gets it, and its time is used as it is.
        public var isUndelivered = false
        /// It becomes the retained message of its topic; only with a topic.
        public var isRetained = false
        /// A block of fields, which ``SendFields`` reads; empty for none.
        public var fields = ByteRange.empty
        public var target: Target
        /// The payload is any bytes; without it, it is `t` as one byte and then `b`.
        public var isRaw = false
        public var payload: ByteRange

        @inlinable
        public init(grade: Grade, number: UInt64, target: Target, payload: ByteRange) {
            self.grade = grade
            self.number = number
            self.target = target
            self.payload = payload
        }

        @usableFromInline
        enum Flag {
            @usableFromInline static var options: UInt8 { 0x04 }
            @usableFromInline static var raw: UInt8 { 0x08 }
        }
        @usableFromInline
        enum Option {
            @usableFromInline static var messageIdentifier: UInt8 { 0x01 }
            @usableFromInline static var expiry: UInt8 { 0x02 }
            @usableFromInline static var time: UInt8 { 0x04 }
            @usableFromInline static var history: UInt8 { 0x08 }
            @usableFromInline static var fields: UInt8 { 0x10 }
            @usableFromInline static var noHistory: UInt8 { 0x20 }
            @usableFromInline static var historyOnly: UInt8 { 0x40 }
            @usableFromInline static var retained: UInt8 { 0x80 }
        }

        /// Decodes the structure. Whether the ids, the topic and the message obey their rules is
        /// the matter of this one send: ``Target/fault(in:)``, ``TextRules`` and ``TextBody`` tell.
        @inlinable
        public init(flags: UInt8, body: RawSpan) throws(WireError) {
            var reader = PacketReader(body)
            guard let grade = Grade(rawValue: flags & 0x03) else { throw .malformed }
            self.grade = grade
            number =
                grade == .transient
                ? 0 : try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            target = .broadcast
            payload = .empty
            if flags & Flag.options != 0 { try readOptions(&reader) }
            target = try Target(&reader)
            isRaw = flags & Flag.raw != 0
            payload = reader.readRest()
            guard !(isRaw || isRetained) || target.isTopic else { throw .protocolError }
            if !isRaw, payload.isEmpty { throw .malformed }
        }

        @inlinable
        mutating func readOptions(_ reader: inout PacketReader) throws(WireError) {
            let options = try reader.readByte()
            guard options != 0 else { throw .malformed }
            if options & Option.messageIdentifier != 0 {
                messageIdentifier = try reader.readString8(
                    1...WireLimits.messageIdentifierByteCountMaximum)
            }
            if options & Option.expiry != 0 {
                expirySeconds = try reader.readVarInt(in: 1...UInt32.max)
            }
            if options & Option.time != 0 {
                time = try reader.readVarInt(in: 1...WireLimits.varIntMaximum)
            }
            isKept = options & Option.history != 0
            if options & Option.fields != 0 { fields = try MRT.readFields(&reader) }
            isNeverKept = options & Option.noHistory != 0
            isUndelivered = options & Option.historyOnly != 0
            guard !(isKept && isNeverKept), isKept || !isUndelivered else { throw .malformed }
            isRetained = options & Option.retained != 0
        }

        @inlinable
        var options: UInt8 {
            (messageIdentifier.isEmpty ? 0 : Option.messageIdentifier)
                | (expirySeconds == 0 ? 0 : Option.expiry) | (time == 0 ? 0 : Option.time)
                | (isKept ? Option.history : 0) | (isRetained ? Option.retained : 0)
                | (isNeverKept ? Option.noHistory : 0)
                | (isUndelivered ? Option.historyOnly : 0)
                | (fields.isEmpty ? 0 : Option.fields)
        }

        @inlinable
        public var typeAndFlags: UInt8 {
            PacketType.send.withFlags(
                grade.rawValue | (options == 0 ? 0 : Flag.options) | (isRaw ? Flag.raw : 0))
        }

        @inlinable
        public var bodyByteCount: Int {
            var count = target.byteCount + Int(payload.count)
            if grade != .transient { count += VariableInteger.byteCount(number) }
            if options != 0 { count += 1 }
            if !messageIdentifier.isEmpty { count += messageIdentifier.string8ByteCount }
            if expirySeconds != 0 { count += VariableInteger.byteCount(expirySeconds) }
            if time != 0 { count += VariableInteger.byteCount(time) }
            if !fields.isEmpty { count += fields.stringVByteCount }
            return count
        }

        @inlinable
        public func writeBody(to writer: inout PacketWriter, from source: RawSpan) {
            precondition(
                (grade == .transient) == (number == 0),
                "number \(number) with grade \(grade.rawValue)")
            if number != 0 { writer.write(varInt: number) }
            if options != 0 { writer.write(byte: options) }
            if !messageIdentifier.isEmpty {
                writer.write(string8: messageIdentifier.bytes(in: source))
            }
            if expirySeconds != 0 { writer.write(varInt: expirySeconds) }
            if time != 0 { writer.write(varInt: time) }
            if !fields.isEmpty { writer.write(stringV: fields.bytes(in: source)) }
            target.write(to: &writer, from: source)
            writer.write(bytes: payload.bytes(in: source))
        }
    }
}
