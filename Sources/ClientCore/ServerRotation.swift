// Which of its addresses a client tries next, and whether it waits before: the rule of PROTOCOL.md
// section 8, "Several addresses", for the SDK, the gateway and the bridge. It resolves no names and
// knows no time.

/// The addresses of one broker: those of all nodes of a cluster.
public struct ServerList {
    private let names: UnsafeRawBufferPointer
    /// The number of addresses, 1 to ``ClientLimits/serversMaximum``.
    public let count: Int

    /// One address without a name: no refusal can redirect the client.
    public init() {
        names = UnsafeRawBufferPointer(start: nil, count: 0)
        count = 1
    }

    /// - Parameter names: HOST:PORT of each address, joined by commas. They must stay valid and
    ///   unchanged while a machine has them.
    public init(names: UnsafeRawBufferPointer) {
        var commaCount = 0
        for byte in names where byte == UInt8(ascii: ",") { commaCount += 1 }
        precondition(
            commaCount < ClientLimits.serversMaximum,
            "\(commaCount + 1) addresses, at most \(ClientLimits.serversMaximum)")
        self.names = names
        count = commaCount + 1
    }

    /// The index of the address with this name, byte by byte; nil if the list has none.
    func index(of name: UnsafeRawBufferPointer) -> Int? {
        guard !name.isEmpty else { return nil }
        var index = 0
        var start = 0
        for end in 0...names.count where end == names.count || names[end] == UInt8(ascii: ",") {
            if end - start == name.count {
                var same = 0
                while same < name.count, names[start + same] == name[same] { same += 1 }
                if same == name.count { return index }
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
