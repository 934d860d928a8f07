// What a receiving application tells about a message, as plain data.

import Primitives

/// A receiver has applied a message, or tells why not.
public struct AppliedRequest: Sendable {
    /// The reference in the delivery.
    public var reference: UInt64
    /// The application's own: 0 for done, from ``ReceiptLimits/failureCode`` on a failure.
    public var code: UInt8
    /// Text for the sender, at most ``ReceiptLimits/textByteCountMaximum`` bytes.
    public var text: ByteRange

    public init(reference: UInt64, code: UInt8, text: ByteRange) {
        self.reference = reference
        self.code = code
        self.text = text
    }
}
