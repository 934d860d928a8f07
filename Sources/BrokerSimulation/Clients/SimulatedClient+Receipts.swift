// Receipts of a device: those that it gets, and what it tells about messages that it has.

import ClientCore
import Primitives
import WireFormat

extension SimulatedClient {
    /// Notes what the sender of a message asks for, before the message is acknowledged.
    func noteAsks(_ deliver: MRT.Deliver, in bytes: RawSpan) {
        guard let fields = deliver.decodedFields(in: bytes) else { return }
        if fields.asks.contains(.applied) { askedReferences.append(fields.reference) }
    }

    /// Reads a receipt. The caller acknowledges it.
    func readReceipt(_ deliver: MRT.Deliver, in bytes: RawSpan) {
        guard let session, let receipt = MRT.Receipt(deliver.payload, in: bytes) else {
            oracle.fail(.receiptsAreTrue, "a receipt that cannot be read", client: index)
            return
        }
        let isApplied: Bool
        switch receipt.event {
        case .delivered: isApplied = false
        case .applied: isApplied = true
        case .counts:
            return oracle.fail(.receiptsAreTrue, "counts of no group", client: index)
        }
        oracle.receiptReceived(
            ReceivedReceipt(
                number: deliver.number, reference: receipt.reference,
                messageIdentifier: text(receipt.messageIdentifier, in: bytes),
                from: text(deliver.from, in: bytes),
                isApplied: isApplied),
            session: session, client: index)
    }

    private func text(_ range: ByteRange, in bytes: RawSpan) -> String {
        range.bytes(in: bytes).withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// Tells the sender of a message that asks for it that it is applied.
    func tellApplied() {
        guard isConnected, !askedReferences.isEmpty else { return }
        let reference = askedReferences.removeFirst()
        let part = MRT.Applied(reference: reference)
        guard let identifier = request(.applied, part, from: []) else { return }
        oracle.telling(reference, user: habits.user)
        requests[identifier] = .applied(reference)
    }
}
