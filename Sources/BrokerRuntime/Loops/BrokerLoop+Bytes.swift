// Bytes that were made elsewhere, sent on a connection.

import BrokerTerms

extension BrokerLoop where Self: ~Copyable {
    /// Sends bytes on a connection, unless it has no room for what it must take and ends.
    mutating func write(_ bytes: [UInt8], to connection: ConnectionID) {
        guard let target = reservePacket(bytes.count, for: connection, .required) else { return }
        bytes.withUnsafeBytes { target.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
        commitPacket(bytes.count, for: connection)
    }
}
