// The connection of every example. Server, authority and token come from the environment, so that
// no secret is on a command line.

import Foundation
import MartletClient

/// Connects as the environment says: `MARTLET_SERVER` (`tls://localhost:8883` by default; the nodes
/// of a cluster with commas between them), `MARTLET_CA` (a PEM file; the system's authorities by
/// default), and `MARTLET_TOKEN`.
///
/// - Parameter device: distinguishes the devices of one user, 0 to 64 bytes.
/// - Throws: `MartletError`; `.invalid` if there is no token or the address cannot be read.
public func connect(device: String) async throws(MartletError) -> Client {
    let environment = ProcessInfo.processInfo.environment
    guard let token = environment["MARTLET_TOKEN"] else {
        throw .invalid("MARTLET_TOKEN is not set")
    }
    let servers = try ServerAddress.list(environment["MARTLET_SERVER"] ?? "tls://localhost:8883")
    var settings = ClientSettings(servers: servers, credential: .token(token))
    settings.device = device
    if let authority = environment["MARTLET_CA"] { settings.trust = .authorityFile(authority) }
    settings.firstAttemptsMaximum = 5
    let client = try Client(settings)
    _ = try await client.connect()
    return client
}

/// Prints a line at once, also into a pipe.
public func report(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

/// Prints the error to standard error and ends the program with status 1.
public func fail(_ error: any Error) -> Never {
    FileHandle.standardError.write(Data("error: \(error)\n".utf8))
    exit(1)
}
