// The stores of the shards at the start of a broker: they are opened, read into one core each, and
// checked against the configuration, so that no app is in two shards and no store is forgotten.

import BrokerCore
import CLinuxShims
import Configuration
import Credentials
import Glibc
import Primitives
import QueueStore

/// The open stores by the places of their shards, until the writers take them.
struct ShardStores {
    let map: ShardMap
    let stores: [Box<LMDBQueueStore>]
    private let settings: BrokerSettings

    /// Opens the stores, and makes those that are not there.
    init(_ settings: BrokerSettings) throws(StartError) {
        map = ShardMap(settings.shards)
        self.settings = settings
        if let fault = map.fault(in: settings.dataDirectory) { throw .shards(fault) }
        // It makes the data directory.
        var stores = [try Self.open(settings)]
        try map.makeFolder(in: settings.dataDirectory)
        for place in 1..<map.count {
            stores.append(try Self.open(map.settings(of: place, settings)))
        }
        self.stores = stores
    }

    static func open(
        _ settings: BrokerSettings
    ) throws(StartError) -> Box<LMDBQueueStore> {
        do throws(StoreError) {
            return Box(
                try LMDBQueueStore(
                    directory: settings.dataDirectory, options: StoreOptions(settings)))
        } catch {
            throw .store(error)
        }
    }

    /// The directory of the store of a shard.
    func directory(of place: Int) -> String {
        map.directory(of: place, in: settings.dataDirectory)
    }

    /// Broker time of a shard: it continues from the last commit of its store. Without a stamp, it
    /// begins now.
    func clock(of place: Int) -> BrokerClock {
        Self.clock(of: stores[place], settings)
    }

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
            stores[place], of: place, in: map, settings, trust: trust, loopCount: loopCount)
    }

    static func restore(
        _ store: Box<LMDBQueueStore>, of place: Int, in map: ShardMap, _ settings: BrokerSettings,
        trust: VoucherTrust, loopCount: Int
    ) throws(StartError) -> Broker {
        // The core needs the time before the rows of the store are read.
        let clock = clock(of: store, settings)
        var broker = Broker(
            limits: CoreLimits(settings), loopCount: loopCount, trust: trust,
            at: clock.moment())
        var state: RestoredState
        do throws(StoreError) {
            state = try store.value.restore(into: &broker)
        } catch {
            throw .store(error)
        }
        store.value.claimRoom(telling: &state)
        do throws(RestoreError) {
            try broker.finishRestoring(
                state, newEpochSeed: SystemRandom.number(), at: clock.moment())
        } catch {
            throw .state(error)
        }
        for app in broker.appSummaries() {
            let configured = map.place(ofApp: app.name)
            guard configured == place else {
                let name = String(decoding: app.name, as: UTF8.self)
                throw .shards(
                    "the app \(name) is in the store of the shard \(map.names[place]), and shards "
                        + "has it in \(map.names[configured]): an app cannot be moved between "
                        + "shards yet")
            }
        }
        broker.anonymousApp = Array(DevelopmentSetup.app.utf8)
        // Reading the rows leaves up to half as much free memory as the restored state uses.
        malloc_trim(0)
        return broker
    }
}

extension ShardMap {
    /// Makes the folder of the stores of shards, if there are any, in a data directory.
    func makeFolder(in dataDirectory: String) throws(StartError) {
        guard count > 1 else { return }
        do throws(CredentialError) {
            try PrivateDirectory.ensure("\(dataDirectory)/\(Self.folder)")
            try PrivateDirectory.sync(dataDirectory)
        } catch {
            throw .credentials(error)
        }
    }

    /// Why a data directory does not fit: it has the store of a shard that the map does not know,
    /// whose apps would be missing. Nil if it fits.
    func fault(in dataDirectory: String) -> String? {
        let folder = "\(dataDirectory)/\(Self.folder)"
        guard let directory = opendir(folder) else { return nil }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard !names.dropFirst().contains(name), name != ".", name != "..",
                Glibc.access("\(folder)/\(name)/\(LMDBQueueStore.dataFileName)", F_OK) == 0
            else { continue }
            return "\(folder)/\(name) has the store of a shard that shards does not name: name it, "
                + "or move that directory away with its apps"
        }
        return nil
    }

    /// Which store a directory lacks, as a backup of another configuration does; nil if it has all.
    func missing(in root: String) -> String? {
        for place in 0..<count {
            let directory = directory(of: place, in: root)
            guard Glibc.access("\(directory)/\(LMDBQueueStore.dataFileName)", F_OK) != 0 else {
                continue
            }
            // The store's own error says more of the only one.
            if count == 1 { return nil }
            return "\(directory) has no store, and shards has the shard \(names[place])"
        }
        return nil
    }
}
