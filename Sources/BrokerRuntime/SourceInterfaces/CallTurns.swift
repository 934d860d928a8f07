// Requests to interfaces of other systems that wait, in a fair order: each user, and of those who
// have not proved who they are each address, has a turn after every other one.

/// Requests that wait for a thread, by the holder of their share.
struct CallTurns {
    /// The oldest request of a holder is the first. No list is empty.
    private var waiting: [RequestHolder: [SourceCall]] = [:]
    /// The holders that have requests, in the order of their turns.
    private var turns: [RequestHolder] = []

    var isEmpty: Bool { turns.isEmpty }

    mutating func add(_ call: SourceCall) {
        let holder = call.holder
        if waiting[holder] == nil { turns.append(holder) }
        waiting[holder, default: []].append(call)
    }

    /// Takes the oldest request of the holder whose turn it is; nil if none waits.
    mutating func takeNext() -> SourceCall? {
        guard !turns.isEmpty else { return nil }
        let holder = turns.removeFirst()
        guard var calls = waiting.removeValue(forKey: holder), !calls.isEmpty else {
            preconditionFailure("a holder of \(turns.count + 1) has a turn and no request")
        }
        let call = calls.removeFirst()
        if !calls.isEmpty {
            waiting[holder] = calls
            turns.append(holder)
        }
        return call
    }

    mutating func removeAll() { self = CallTurns() }
}
