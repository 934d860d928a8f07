// The errors that prevent a start, with messages for operators and kinds for exit codes.

import BrokerCore
import Credentials
import Glibc
import NetTransport
import QueueStore

/// An error that prevents a broker from starting, or ends it.
public enum StartError: Error, CustomStringConvertible {
    case store(StoreError)
    /// The same for one of several stores.
    case shardStore(StoreError, shard: String)
    case state(RestoreError)
    case transport(TransportError)
    case credentials(CredentialError)
    /// A certificate, key or revocation list that the configuration names for TLS.
    case tlsFile(TransportError)
    /// Another file of keys or identities that the configuration names.
    case keyFile(CredentialError)
    case file(call: String, path: String, errno: Int32)
    case missingCertificate(listener: String)
    case fullStore
    /// A node of a cluster cannot start, in words.
    case cluster(String)
    /// The stores do not fit the shards of the configuration, in words.
    case shards(String)
    /// The store is a node's, and the configuration has no cluster, or the other way round.
    case clusterStore(String)

    /// - Parameter shard: the name; nil for the store of a broker without shards.
    init(_ error: StoreError, shard: String?) {
        self = shard.map { .shardStore(error, shard: $0) } ?? .store(error)
    }

    public var description: String {
        switch self {
        case .store(let error): "\(error)"
        case .shardStore(let error, let shard): "shard \(shard): \(error)"
        case .state(let error):
            "the store has contents that this version cannot read (\(error)); "
                + "use the version that wrote it, or restore a backup"
        case .transport(.system(call: "bind", let address, EADDRINUSE)):
            "\(address) is in use by another program (ss -ltnp); choose another address"
        case .transport(let error), .tlsFile(let error): "\(error)"
        case .credentials(let error), .keyFile(let error): "\(error)"
        case .fullStore:
            "the store has no space for the demo app, or limits.users none for its users; make "
                + "space, or use another store"
        case .cluster(let text), .clusterStore(let text), .shards(let text): text
        case .file(let call, let path, let code):
            "\(call) failed on \(path): \(String(cString: strerror(code)))"
        case .missingCertificate(let listener):
            "\(listener) needs tls.certificateFile and tls.keyFile (or start with --dev)"
        }
    }

    /// The kind of error, for the program's exit code (listed in docs/operating).
    public enum Kind: Sendable {
        case configuration
        case addressInUse
        case store
        /// Another node of the cluster is the primary: the next start is that of a standby.
        case deposed
        case other
    }

    public var kind: Kind {
        switch self {
        case .transport(.system(call: "bind", _, EADDRINUSE)): .addressInUse
        case .store, .shardStore, .state, .fullStore, .clusterStore: .store
        case .cluster, .shards: .configuration
        case .missingCertificate, .tlsFile, .keyFile: .configuration
        case .transport, .credentials, .file: .other
        }
    }
}
