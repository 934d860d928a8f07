// The empty core of a shard whose primary is another node of the cluster: it refuses logins, and
// names that node.

import BrokerCore
import BrokerTerms
import Dialects
import QueueStore
import Threads

extension SharedBroker {
    /// Where the primary of the shard is; empty if none is known.
    var primaryAddresses: PrimaryAddresses {
        guard
            let primary = gate?.view?.withLock({
                $0.primary(at: ClusterGate.nowMilliseconds)
            })
        else { return PrimaryAddresses() }
        return PrimaryAddresses(client: primary.address, web: primary.webAddress)
    }

    /// Counts a login or a request that was sent to the primary.
    func countRedirection() { gate?.view?.withLock { $0.refusedCount += 1 } }

    /// Whether the shard has an app; nil while its store is closed, or if it cannot be read.
    func hasApp(_ name: [UInt8]) -> Bool? {
        if takesEvents { return look { $0.hasApp(name) } }
        return standbyRows.withLock { rows -> Bool? in
            guard let rows else { return nil }
            do throws(StoreError) {
                return try rows.value(.apps, key: name) != nil
            } catch {
                return nil
            }
        }
    }

    /// The names of the shard's apps; nil while its store is closed, or if it cannot be read.
    var appNames: [[UInt8]]? {
        if takesEvents { return enter { $0.broker.appSummaries().map(\.name) } }
        return standbyRows.withLock { rows in try? rows?.keys(of: .apps) }
    }

    /// Whether the store of a standby has a token; nil while it is closed. It may lack what the
    /// primary has changed in the last moment.
    func standbyKnows(_ credential: PresentedCredential) -> Bool? {
        guard case .token(let identifier, let digest) = credential else { return false }
        return standbyRows.withLock { rows -> Bool? in
            guard let rows else { return nil }
            do throws(StoreError) {
                guard let row = try rows.value(.tokens, key: identifier) else { return false }
                return Token.matches(row: row, of: identifier, digest: digest)
            } catch {
                // The store's own thread ends the node.
                return nil
            }
        }
    }
}

extension SharedBroker.State {
    /// Refuses the logins among the events of a loop, and forgets all others: no connection of this
    /// shard is open.
    mutating func refuseLogins(
        _ decoder: inout PacketDecoder, loop: UInt8, of shared: SharedBroker
    ) {
        for event in decoder.events {
            guard case .connectReceived(let connection, _) = event else { continue }
            shared.countRedirection()
            effects[loop].effects.append(
                .refuse(connection, .useAnotherServer, retryAfterSeconds: 0))
        }
        decoder.removeEvents()
    }
}
