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
    /// Broker time of each shard. Each is computed once: a second one may be a millisecond earlier.
    let clocks: [BrokerClock]
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
        try layout.makeFolder()
        var all: [Box<LMDBQueueStore>] = []
        for (place, store) in stores.enumerated() {
            if let store { all.append(store) } else { all.append(try open(place)) }
        }
        self.stores = all
        clocks = all.map { Self.clock(of: $0, settings) }
        try layout.noteOpened()
    }

    /// Refuses a store with an app that the map gives to another shard.
    static func checkApps(
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

    static func open(
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

    /// Broker time of a store: it continues from the last commit. Without a stamp, it begins now.
    static func clock(
        of store: Box<LMDBQueueStore>, _ settings: BrokerSettings
    ) -> BrokerClock {
        BrokerClock(
            after: store.value.openingStamp,
            downtimeMaximumSeconds: settings.store.downtimeMaximumSeconds)
    }

    /// Reads a store into a core.
    func restore(
        _ place: Int, trust: VoucherTrust, loopCount: Int
    ) throws(StartError) -> Broker {
        try Self.restore(
            stores[place], of: place, in: map, settings, at: clocks[place], trust: trust,
            loopCount: loopCount)
    }

    /// - Parameter clock: that of the store. The core needs the time before the rows are read.
    static func restore(
        _ store: Box<LMDBQueueStore>, of place: Int, in map: ShardMap, _ settings: BrokerSettings,
        at clock: BrokerClock, trust: VoucherTrust, loopCount: Int
    ) throws(StartError) -> Broker {
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
