// Identities that the edge has verified, on their way into the core: what a claim refers to stands
// in the list of the turn whose events hold the claim, as names and payloads stand in its bytes.

/// The verified identities of the events of one turn.
public struct TurnIdentities: Sendable {
    /// Names one identity of one turn. What it names is gone with the turn, so that a claim that
    /// is read too late finds nobody, and never somebody else.
    public struct Reference: Hashable, Sendable {
        fileprivate let turn: UInt32
        fileprivate let index: UInt32
    }

    private var turn: UInt32 = 0
    private var identities: ContiguousArray<VerifiedIdentity> = []

    public init() {}

    public var isEmpty: Bool { identities.isEmpty }

    public mutating func append(_ identity: VerifiedIdentity) -> Reference {
        identities.append(identity)
        return Reference(turn: turn, index: UInt32(identities.count - 1))
    }

    /// The events of the turn are done with.
    public mutating func endTurn() {
        guard !identities.isEmpty else { return }
        identities.removeAll(keepingCapacity: true)
        turn &+= 1
    }

    /// Nil where nothing was verified under this name in this turn.
    public subscript(reference: Reference) -> VerifiedIdentity? {
        guard reference.turn == turn, reference.index < identities.count else { return nil }
        return identities[Int(reference.index)]
    }
}
