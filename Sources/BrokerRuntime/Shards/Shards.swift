// The cores of a broker, one for each shard, and who belongs to which. Event loops and the thread
// of the administration use them; each is entered under a lock of its own.

import BrokerCore
import BrokerTerms
import NetTransport
import Primitives

/// The cores by the places of their shards.
package struct Shards: Sendable {
    let map: ShardMap
    let cores: [SharedBroker]

    /// A broker with one shard.
    package init(_ only: SharedBroker) { self.init(ShardMap(), [only]) }

    init(_ map: ShardMap, _ cores: [SharedBroker]) {
        precondition(cores.count == map.count, "\(cores.count) cores of \(map.count) shards")
        self.map = map
        self.cores = cores
    }

    /// The core of the default shard. What belongs to no app is counted there.
    var first: SharedBroker { cores[0] }

    /// The event loops, which serve the connections of all shards.
    var loopHandles: [LoopHandle] { first.loopHandles }

    /// The core that has an app, whether there is such an app or not.
    subscript(app: [UInt8]) -> SharedBroker { cores[map.place(ofApp: app)] }

    subscript(app: String) -> SharedBroker {
        cores.count == 1 ? first : self[Array(app.utf8)]
    }

    /// The name of the shard that has an app.
    func name(ofApp app: String) -> String { map.names[map.place(ofApp: Array(app.utf8))] }

    // MARK: - Credentials

    /// The core that knows a credential; the first one if none does, which then refuses it.
    ///
    /// Verified identities name their app. Tokens and keys name none: each core is asked in turn
    /// under its lock, which is a look-up in a hash table. A table of all tokens beside the
    /// registries would cost tens of bytes for each of a million tokens, and every change would
    /// have to reach it before its commit is told.
    func place(of credential: PresentedCredential) -> Int {
        guard cores.count > 1 else { return 0 }
        if case .verified(let identity) = credential {
            return map.place(ofApp: identity.app)
        }
        // An expired one has a core, too: that one counts its refusal.
        let known = cores.firstIndex { core in
            core.look { $0.holder(of: credential, unixSeconds: 0) } != nil
        }
        if let known { return known }
        guard isClustered else { return 0 }
        // A core that leads refuses what nobody knows, so that a wrong token does not wander from
        // node to node.
        return standbyPlace(of: credential) ?? cores.firstIndex { $0.takesEvents } ?? 0
    }

    /// Whether each shard is one of a cluster's.
    var isClustered: Bool { first.gate != nil }

    /// The shard whose standby is here, and whose store knows a credential that no core knows, or
    /// is closed: a client that is told that its token is wrong would not come back. Nil if there
    /// is none.
    func standbyPlace(of credential: PresentedCredential) -> Int? {
        guard isClustered, cores.count > 1 else { return nil }
        if case .verified(let identity) = credential {
            let place = map.place(ofApp: identity.app)
            return cores[place].takesEvents ? nil : place
        }
        let answers = cores.map { $0.takesEvents ? false : $0.standbyKnows(credential) }
        return answers.firstIndex { $0 == true } ?? answers.firstIndex { $0 == nil }
    }

    /// The core that would have an app, if another node is the primary of its shard; nil if the app
    /// is served here.
    func elsewhere(_ app: String) -> SharedBroker? {
        guard isClustered, cores.count > 1 else { return nil }
        let core = self[app]
        return core.takesEvents ? nil : core
    }

    /// The holder of a credential at a time in Unix seconds; nil if no core knows it.
    func holder(
        of credential: PresentedCredential, unixSeconds now: UInt64
    ) -> CredentialHolder? {
        let core = cores[place(of: credential)]
        return core.look { $0.holder(of: credential, unixSeconds: now) }
    }

    /// The core for a login.
    ///
    /// - Parameters:
    ///   - bytes: those that the claim refers to.
    ///   - identities: the verified claims of the turn.
    func place(
        of claim: Claim, in bytes: RawSpan, _ identities: TurnIdentities
    ) -> Int {
        switch claim {
        case .token(let identifier, let digest):
            place(of: .token(identifier: Self.copy(of: identifier, in: bytes), digest))
        case .appKey(let app, _, _): map.place(ofApp: Self.copy(of: app, in: bytes))
        case .anonymous: map.place(ofApp: Array(DevelopmentSetup.app.utf8))
        case .verified(let reference):
            identities[reference].map { map.place(ofApp: $0.app) } ?? 0
        // A channel's core is that of its gateway, which has logged in before.
        case .attached: 0
        }
    }

    private static func copy(of range: ByteRange, in bytes: RawSpan) -> [UInt8] {
        range.bytes(in: bytes).withUnsafeBytes { Array($0) }
    }

    /// Whose a connection is, and in which core; nil if none knows it.
    func owner(of connection: ConnectionID) -> ConnectionOwner? {
        for core in cores {
            if let owner = core.look({ $0.owner(of: connection) }) { return owner }
        }
        return nil
    }
}
