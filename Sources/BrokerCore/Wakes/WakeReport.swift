// What a relay reports of a wake-up, and the run of them in a request.

import Primitives

/// One thing that happened to a wake-up at a relay.
public struct WakeReport: Hashable, Sendable {
    /// What happened. Raw values are on the wire.
    public enum Step: UInt8, Hashable, Sendable, CaseIterable {
        case asked = 0
        case sent = 1
        case failed = 2
        case refused = 3
        case gone = 4
        // 5 was the removal at the broker.
        case withdrawn = 6
        case coalesced = 7
        case dropped = 8
        case resent = 9

        /// Its word in the API and in the command line.
        public var name: StaticString {
            switch self {
            case .asked: "asked"
            case .sent: "sent"
            case .failed: "failed"
            case .refused: "refused"
            case .gone: "gone"
            case .withdrawn: "withdrawn"
            case .coalesced: "coalesced"
            case .dropped: "dropped"
            case .resent: "resent"
            }
        }
    }

    /// The id of the target.
    public var target: UInt64
    public var kind: WakeTarget.Kind
    public var step: Step
    /// By the relay's clock, in Unix milliseconds, at most ``CoreLimits/reportTimeMaximum``.
    public var time: UInt64
    /// The relay's number of the wake-up.
    public var wake: UInt64
    /// Messages that waited for the user.
    public var count: UInt64
    /// A status, a reason or a cause; empty for none.
    public var detail: [UInt8]
    /// Given by the broker: rises by one with each entry of all users since the start, from 1.
    public internal(set) var number: UInt64 = 0
}

/// The entries of a report of a relay, in the form of MRT:
///
///     string8 user | varint target | u8 kind | u8 step | varint time | varint number |
///     varint count | string8 detail
///
/// The dialect has checked the form, and that details are UTF-8.
struct WakeReportRun {
    private var offset: Int
    private let end: Int

    init(_ range: ByteRange) {
        offset = Int(range.offset)
        end = offset + Int(range.count)
    }

    /// The next entry, whose report is nil if the broker does not know its kind or step; nil at the
    /// end.
    ///
    /// - Parameter bytes: those of the event.
    mutating func next(in bytes: RawSpan) -> (user: ByteRange, report: WakeReport?)? {
        guard let user = string(in: bytes), let target = number(in: bytes),
            let kind = byte(in: bytes), let step = byte(in: bytes), let time = number(in: bytes),
            let wake = number(in: bytes), let count = number(in: bytes),
            let detail = string(in: bytes)
        else { return nil }
        guard let kind = WakeTarget.Kind(rawValue: kind),
            let step = WakeReport.Step(rawValue: step)
        else { return (user, nil) }
        let start = Int(detail.offset)
        return (
            user,
            WakeReport(
                target: target, kind: kind, step: step,
                time: min(time, CoreLimits.reportTimeMaximum), wake: wake, count: count,
                detail: (start..<start + Int(detail.count)).map {
                    bytes.unsafeLoad(fromByteOffset: $0, as: UInt8.self)
                })
        )
    }

    private mutating func byte(in bytes: RawSpan) -> UInt8? {
        guard offset < end else { return nil }
        defer { offset += 1 }
        return bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
    }

    private mutating func string(in bytes: RawSpan) -> ByteRange? {
        guard let length = byte(in: bytes), end - offset >= Int(length) else { return nil }
        defer { offset += Int(length) }
        return ByteRange(offset: offset, count: Int(length))
    }

    private mutating func number(in bytes: RawSpan) -> UInt64? {
        var (value, shift) = (UInt64(0), UInt64(0))
        while let byte = byte(in: bytes) {
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
        return nil
    }
}
