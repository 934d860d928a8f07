// The stores of the shards at the start of a broker: they are opened, and read into one core each.

import BrokerCore
import CLinuxShims
import Configuration
import Credentials
import Primitives
import QueueStore

/// The open stores by the places of their shards, until the writers take them.
struct ShardStores {
    let map: ShardMap
    let stores: [Box<LMDBQueueStore>]
    private let settings: BrokerSettings

    /// Opens the stores, and then makes those that are not there: a start that is refused makes
    /// none.
    init(_ settings: BrokerSettings) throws(StartError) {
        let map = ShardMap(settings.shards)
        self.map = map
        self.settings = settings
        let layout = ShardLayout(settings, in: settings.dataDirectory)
        try layout.checkStores()
        // It makes the data directory.
        var stores: [Box<LMDBQueueStore>?] = [try Self.open(settings, shard: map.label(of: 0))]
        func open(_ place: Int) throws(StartError) -> Box<LMDBQueueStore> {
            try Self.open(map.settings(of: place, settings), shard: map.label(of: place))
        }
        for place in 1..<map.count {
            stores.append(layout.hasStore(place) ? try open(place) : nil)
        }
        for case (let place, let store?) in stores.enumerated() where map.count > 1 {
            try Self.checkApps(of: store, in: map.names[place], map)
        }
        if map.count > 1 {
            do throws(CredentialError) {
                try PrivateDirectory.ensure("\(settings.dataDirectory)/\(ShardMap.folder)")
                try PrivateDirectory.sync(settings.dataDirectory)
            } catch {
                throw .credentials(error)
            }
        }
        var all: [Box<LMDBQueueStore>] = []
        for (place, store) in stores.enumerated() {
            if let store { all.append(store) } else { all.append(try open(place)) }
        }
        self.stores = all
        try layout.noteOpened()
    }

    private static func checkApps(
        of store: Box<LMDBQueueStore>, in shard: String, _ map: ShardMap
    ) throws(StartError) {
        let apps: [[UInt8]]
        do throws(StoreError) {
            apps = try store.value.recordKeys(of: .apps)
        } catch {
            throw .shardStore(error, shard: shard)
        }
        if let fault = ShardLayout.moved(apps, in: shard, to: map) { throw .shards(fault) }
    }

    private static func open(
        _ settings: BrokerSettings, shard: String?
    ) throws(StartError) -> Box<LMDBQueueStore> {
        do throws(StoreError) {
            return Box(
                try LMDBQueueStore(
                    directory: settings.dataDirectory, options: StoreOptions(settings)))
        } catch {
            throw StartError(error, shard: shard)
        }
    }

    /// The directory of the store of a shard.
    func directory(of place: Int) -> String {
        map.directory(of: place, in: settings.dataDirectory)
    }

    /// Broker time for all shards: it continues from the last commit of any.
    var clock: BrokerClock {
        let clocks = stores.map {
            BrokerClock(
                after: $0.value.openingStamp,
                downtimeMaximumSeconds: settings.store.downtimeMaximumSeconds)
        }
        // There is one at least: that of the default shard.
        return clocks.max { $0.offsetMilliseconds < $1.offsetMilliseconds }!
    }

    /// Reads a store into a core.
    ///
    /// - Parameter clock: the core needs the time before the rows of the store are read.
    func restore(
        _ place: Int, trust: VoucherTrust, loopCount: Int, clock: BrokerClock
    ) throws(StartError) -> Broker {
        let store = stores[place]
        var broker = Broker(
            limits: CoreLimits(settings), loopCount: loopCount, trust: trust,
            at: clock.moment())
        var state: RestoredState
        do throws(StoreError) {
            state = try store.value.restore(into: &broker)
        } catch {
            throw StartError(error, shard: map.label(of: place))
        }
        store.value.claimRoom(telling: &state)
        do throws(RestoreError) {
            try broker.finishRestoring(
                state, newEpochSeed: SystemRandom.number(), at: clock.moment())
        } catch {
            throw .state(error)
        }
        broker.anonymousApp = Array(DevelopmentSetup.app.utf8)
        // Reading the rows leaves up to half as much free memory as the restored state uses.
        malloc_trim(0)
        return broker
    }
}
