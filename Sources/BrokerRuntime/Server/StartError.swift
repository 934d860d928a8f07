// Why a broker does not start, in words an operator can act on and codes a script can test.

import BrokerCore
import Credentials
import Glibc
import NetTransport
import QueueStore

/// What keeps a broker from starting, or ends it.
public enum StartError: Error, CustomStringConvertible {
    case store(StoreError)
    case state(RestoreError)
    case transport(TransportError)
    case credentials(CredentialError)
    case file(call: String, path: String, errno: Int32)
    case missingCertificate(listener: String)
    case fullStore

    public var description: String {
        switch self {
        case .store(let error): "\(error)"
        case .state(let error):
            "the store holds what this version cannot read (\(error)); "
                + "use the version that wrote it, or restore a backup"
        case .transport(.system(call: "bind", let address, EADDRINUSE)):
            "\(address) is in use: another broker runs there; choose another with --listen"
        case .transport(let error): "\(error)"
        case .credentials(let error): "\(error)"
        case .fullStore: "the store has no room for the demo app; make some, or use another one"
        case .file(let call, let path, let code):
            "\(call) failed on \(path): \(String(cString: strerror(code)))"
        case .missingCertificate(let listener):
            "\(listener) needs tls.certificateFile and tls.keyFile (or start with --dev)"
        }
    }

    /// What sort of trouble it is, for the program's exit code (docs/operating lists them).
    public enum Kind: Sendable {
        case configuration
        case addressInUse
        case store
        case other

        /// For a program that ends in the middle of its work.
        var exitCode: Int32 {
            switch self {
            case .configuration: 1
            case .other: 2
            case .addressInUse: 3
            case .store: 4
            }
        }
    }

    public var kind: Kind {
        switch self {
        case .transport(.system(call: "bind", _, EADDRINUSE)): .addressInUse
        case .store, .state, .fullStore: .store
        case .missingCertificate: .configuration
        case .transport, .credentials, .file: .other
        }
    }
}
