// The id of a user or a device. A broker stores millions of them for devices that are offline, and
// an array for each takes more memory than its contents.

import Primitives

/// A byte string that is stored inline up to 22 bytes, and in an array beyond.
///
/// It takes 24 bytes. An array of 16 bytes takes 8 for its reference and 64 on the heap: a header
/// of 32, the bytes, and the rounding of the allocator.
public struct Name: Hashable, Sendable {
    /// The longest name, in bytes, that is stored inline.
    public static var inlineCountMaximum: Int { 22 }

    /// Unused bytes are zero, so that equal names are equal in all their bits.
    @usableFromInline
    enum Storage: Hashable, Sendable {
        case short(UInt64, UInt64, UInt32, UInt16, count: UInt8)
        case long([UInt8])
    }

    @usableFromInline let storage: Storage

    public init(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count <= Name.inlineCountMaximum else {
            storage = .long(Array(bytes))
            return
        }
        var words: (UInt64, UInt64, UInt32, UInt16) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &words) { $0.copyMemory(from: bytes) }
        storage = .short(words.0, words.1, words.2, words.3, count: UInt8(bytes.count))
    }

    public init(_ bytes: [UInt8]) {
        self = bytes.withUnsafeBytes { Name($0) }
    }

    /// Calls `body` with the bytes, which are valid during the call.
    @inlinable
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        switch storage {
        case .short(let first, let second, let third, let fourth, let count):
            let words = (first, second, third, fourth)
            return try Swift.withUnsafeBytes(of: words) { bytes throws(Failure) in
                try body(UnsafeRawBufferPointer(rebasing: bytes[..<Int(count)]))
            }
        case .long(let array):
            return try array.withUnsafeBufferPointer { bytes throws(Failure) in
                try body(UnsafeRawBufferPointer(bytes))
            }
        }
    }

    @inlinable
    public static func == (left: Name, right: UnsafeRawBufferPointer) -> Bool {
        left.withUnsafeBytes { $0.isEqual(to: right) }
    }

    @inlinable
    public static func == (left: Name, right: [UInt8]) -> Bool {
        right.withUnsafeBytes { left == $0 }
    }
}

extension Name: RandomAccessCollection {
    @inlinable public var startIndex: Int { 0 }

    @inlinable public var endIndex: Int {
        switch storage {
        case .short(_, _, _, _, let count): Int(count)
        case .long(let array): array.count
        }
    }

    @inlinable
    public subscript(position: Int) -> UInt8 { withUnsafeBytes { $0[position] } }
}

extension ByteArena {
    @inlinable
    public mutating func append(_ name: Name) -> ByteRange {
        name.withUnsafeBytes { append($0) }
    }
}
