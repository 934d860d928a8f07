// Which of its addresses a client tries next, and whether it waits before: the rule of PROTOCOL.md
// section 8, "Several addresses", for the SDK, the gateway and the bridge. It resolves no names and
// knows no time.

import Primitives

extension ClientIdentity {
    /// The number of ``servers``, at least 1.
    var serverCount: Int {
        let names = servers.bytes(in: bytes.bytes)
        var count = 1
        for offset in 0..<names.byteCount where names[offset] == UInt8(ascii: ",") { count += 1 }
        precondition(
            count <= ClientLimits.serversMaximum,
            "\(count) servers, at most \(ClientLimits.serversMaximum)")
        return count
    }

    /// The index of the server with this name, byte by byte; nil if there is none.
    func server(named name: RawSpan) -> Int? {
        let names = servers.bytes(in: bytes.bytes)
        var index = 0
        var start = 0
        for end in 0...names.byteCount {
            guard end == names.byteCount || names[end] == UInt8(ascii: ",") else { continue }
            if end > start, end - start == name.byteCount {
                var same = 0
                while same < name.byteCount, names[start + same] == name[same] { same += 1 }
                if same == name.byteCount { return index }
            }
            index += 1
            start = end + 1
        }
        return nil
    }
}

/// The attempts of a round: each address is tried once, in the order of the list, unless a refusal
/// names one of them, which is then the next. After a round there is a wait.
///
/// Because no address is tried twice in a round, two brokers that name each other are tried once
/// for each wait, and a wrong redirection hides no other address.
struct ServerRotation {
    let count: Int
    /// The address of the present attempt or connection, or of the next one.
    private(set) var index = 0
    /// The addresses that were tried in this round, one bit for each.
    private var tried: UInt8 = 0

    init(count: Int) {
        self.count = count
    }

    /// The attempt has failed.
    ///
    /// - Parameter named: the address that the refusal has named; nil for none.
    /// - Returns: whether the next address is tried at once, in the same round.
    mutating func failed(redirectedTo named: Int?) -> Bool {
        tried |= 1 << UInt8(index)
        if let named, !isTried(named) {
            index = named
            return true
        }
        let failedIndex = index
        for _ in 0..<count {
            index = following(index)
            if !isTried(index) { return true }
        }
        index = named ?? following(failedIndex)
        tried = 0
        return false
    }

    /// Another round begins after a wait, with the next address: a session has ended, or the broker
    /// has asked to wait.
    mutating func endRound() {
        index = following(index)
        tried = 0
    }

    private func isTried(_ index: Int) -> Bool { tried & 1 << UInt8(index) != 0 }

    private func following(_ index: Int) -> Int { index + 1 < count ? index + 1 : 0 }
}
