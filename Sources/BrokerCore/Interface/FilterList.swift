// The filters of one SUBSCRIBE or UNSUBSCRIBE, as they are in the buffer of the event.

import Primitives

/// Filters, each as two bytes with its length, the more significant one first, and its bytes; in a
/// SUBSCRIBE followed by one byte of settings, as ``FilterRequest/settings`` writes it.
public struct FilterList: Hashable, Sendable {
    public var bytes: ByteRange
    /// The number of filters that are handled, from the first; more may follow.
    public var count: Int

    public init(bytes: ByteRange, count: Int) {
        precondition(count > 0, "a packet with \(count) filters")
        self.bytes = bytes
        self.count = count
    }
}

extension FilterRequest {
    /// Grade and options as one byte of a list: the grade in bits 1 and 0, no-local in bit 2,
    /// retains-as-published in bit 3, retained-if-new in bit 4, without-retained in bit 5. MQTT 5
    /// has the same layout of its options (section 3.8.3.1).
    public var settings: UInt8 {
        grade.rawValue | (options.rawValue & 0x03) << 2 | options.rawValue & 0x30
    }

    /// A filter of a list, with its settings.
    init(filter: ByteRange, settings: UInt8) {
        guard let grade = Grade(rawValue: settings & 0x03) else {
            preconditionFailure("a subscription of grade \(settings & 0x03)")
        }
        self.init(
            filter: filter, grade: grade,
            options: SubscriptionOptions(rawValue: settings >> 2 & 0x03 | settings & 0x30))
    }
}

extension SubscribeRequest.Filters {
    public var count: Int {
        switch self {
        case .one: 1
        case .list(let list): list.count
        }
    }
}

extension UnsubscribeRequest.Filters {
    public var count: Int {
        switch self {
        case .one: 1
        case .list(let list): list.count
        }
    }
}

/// Iterates over the filters of a SUBSCRIBE.
public struct FilterRequestWalk {
    private var single: FilterRequest?
    private var walk: FilterWalk

    public init(_ filters: SubscribeRequest.Filters, in bytes: UnsafeRawBufferPointer) {
        switch filters {
        case .one(let filter):
            single = filter
            walk = FilterWalk()
        case .list(let list):
            walk = FilterWalk(list, settingsByteCount: 1, in: bytes)
        }
    }

    /// The number of remaining filters.
    public var remainingCount: Int { single == nil ? walk.remainingCount : 1 }

    public mutating func next() -> FilterRequest? {
        if let filter = single {
            single = nil
            return filter
        }
        guard let (filter, end) = walk.nextWithEnd() else { return nil }
        return FilterRequest(filter: filter, settings: walk.bytes[end])
    }
}

/// Iterates over the filters of an UNSUBSCRIBE.
public struct FilterWalk {
    fileprivate var bytes = UnsafeRawBufferPointer(start: nil, count: 0)
    private var single: ByteRange?
    private var offset = 0
    private var settingsByteCount = 0
    private var listedCount = 0

    public init(_ filters: UnsubscribeRequest.Filters, in bytes: UnsafeRawBufferPointer) {
        self.init()
        switch filters {
        case .one(let filter): single = filter
        case .list(let list): self = FilterWalk(list, settingsByteCount: 0, in: bytes)
        }
    }

    fileprivate init() {}

    fileprivate init(
        _ list: FilterList, settingsByteCount: Int, in bytes: UnsafeRawBufferPointer
    ) {
        self.bytes = UnsafeRawBufferPointer(rebasing: bytes[..<list.bytes.endOffset])
        self.settingsByteCount = settingsByteCount
        offset = Int(list.bytes.offset)
        listedCount = list.count
    }

    /// The number of remaining filters.
    public var remainingCount: Int { single == nil ? listedCount : 1 }

    public mutating func next() -> ByteRange? {
        if let filter = single {
            single = nil
            return filter
        }
        return nextWithEnd()?.filter
    }

    /// The next filter of a list, and the offset after it.
    fileprivate mutating func nextWithEnd() -> (filter: ByteRange, end: Int)? {
        guard listedCount > 0 else { return nil }
        listedCount -= 1
        let byteCount = Int(bytes[offset]) << 8 | Int(bytes[offset + 1])
        let filter = ByteRange(offset: offset + 2, count: byteCount)
        offset = filter.endOffset + settingsByteCount
        precondition(offset <= bytes.count, "a filter ends at \(offset) of \(bytes.count) bytes")
        return (filter, filter.endOffset)
    }
}
