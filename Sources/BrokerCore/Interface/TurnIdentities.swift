// Identities that the credential verifier has verified in this turn. A claim refers to one by
// `Reference`, as it refers to names and payloads by their range in the bytes of the turn.

/// The verified identities of the events of one turn.
public struct TurnIdentities: Sendable {
    /// Identifies one identity of one turn. The identity is removed when the turn ends, so a claim
    /// that is read later finds nil, and never another identity.
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

    /// Removes the identities: the events of the turn have been handled.
    public mutating func endTurn() {
        guard !identities.isEmpty else { return }
        identities.removeAll(keepingCapacity: true)
        turn &+= 1
    }

    /// Nil if the reference is not of this turn.
    public subscript(reference: Reference) -> VerifiedIdentity? {
        guard reference.turn == turn, reference.index < identities.count else { return nil }
        return identities[Int(reference.index)]
    }
}
