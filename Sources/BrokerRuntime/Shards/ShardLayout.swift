// Whether the stores in a directory fit the shards of a configuration. It is examined before a
// start, a check or a restore opens or makes a store: a start that is refused changes nothing.

import BrokerCore
import Configuration
import Credentials
import Glibc
import QueueStore

/// The stores of a data directory or of a backup, beside the shards of a configuration.
struct ShardLayout {
    private let map: ShardMap
    private let settings: BrokerSettings
    private let root: String

    /// - Parameter root: the data directory, or a backup.
    init(_ settings: BrokerSettings, in root: String) {
        map = ShardMap(settings.shards)
        self.settings = settings
        self.root = root
    }

    /// Refuses a directory with the store of a shard that is not in the map.
    func checkNames() throws(StartError) {
        guard let directory = unnamedStore() else { return }
        throw .shards(
            "\(directory) has the store of a shard that the configuration does not name: add it to "
                + "\"shards\"; or, if its apps are to be deleted, remove that directory")
    }

    /// Makes the folder of the stores of shards, if there are any.
    func makeFolder() throws(StartError) {
        guard map.count > 1 else { return }
        do throws(CredentialError) {
            try PrivateDirectory.ensure("\(root)/\(ShardMap.folder)")
            try PrivateDirectory.sync(root)
        } catch {
            throw .credentials(error)
        }
    }

    /// Refuses a data directory with which a broker would start without an app: it has a store that
    /// no shard has, or lacks a store that was there. Who opens the stores checks their apps.
    func checkStores() throws(StartError) {
        try checkNames()
        try checkDefault()
        let opened = try readOpened()
        for place in 1..<map.count where !hasStore(place) {
            let directory = map.directory(of: place, in: root)
            if isBrokenLink(directory) {
                throw .shards("\(directory) is a link to a directory that is not there: mount it")
            }
            guard opened.contains(map.names[place]) else { continue }
            throw .shards(
                "\(directory) has no store, and had one at the last start: mount its disk or "
                    + "restore a backup; or, if its apps are lost, remove the line "
                    + "\(map.names[place]) from \(openedFile)")
        }
    }

    /// Refuses a data directory with which a start would be refused, without opening it.
    func checkForStart() throws(StartError) {
        try checkStores()
        try checkApps()
    }

    /// Refuses a directory with the stores of other shards only, which an interrupted restore
    /// leaves: that of the default shard is written last.
    func checkDefault() throws(StartError) {
        guard !hasStore(0), let place = (1..<map.count).first(where: hasStore) else { return }
        throw .shards(
            "\(root) has no \(LMDBQueueStore.dataFileName), and "
                + "\(map.directory(of: place, in: root)) has a store: if a restore was "
                + "interrupted, remove \(root)/\(ShardMap.folder) and restore again; or mount "
                + "the disk of \(root)")
    }

    /// Refuses a backup that does not have the stores of exactly these shards.
    func checkBackup() throws(StartError) {
        let advice =
            map.count > 1
            ? "restore with the configuration of the time of the backup"
            : "give the configuration of the time of the backup (--config FILE)"
        if let directory = unnamedStore() {
            throw .shards(
                "\(directory) has the store of a shard that \"shards\" does not name: \(advice)")
        }
        // The store's own error says more of the only one.
        for place in 0..<map.count where map.count > 1 && !hasStore(place) {
            let directory = map.directory(of: place, in: root)
            throw .shards(
                place == 0
                    ? "\(directory) has no \(LMDBQueueStore.dataFileName): the backup is incomplete"
                    : "\(directory) has no store, and \"shards\" has the shard "
                        + "\(map.names[place]): \(advice)")
        }
        try checkApps()
    }

    /// Refuses a directory in which a store that is to be examined is missing.
    func checkForExamination() throws(StartError) {
        try checkStores()
        for place in 1..<map.count where !hasStore(place) {
            throw .shards(
                "\(map.directory(of: place, in: root)) has no store, and \"shards\" has the shard "
                    + "\(map.names[place])")
        }
    }

    // MARK: - Parts

    /// Refuses stores with apps that the configuration gives to other shards, without opening them.
    func checkApps() throws(StartError) {
        guard map.count > 1 else { return }
        for place in 0..<map.count where hasStore(place) {
            let names: [[UInt8]]
            do throws(StoreError) {
                names = try LMDBQueueStore.recordKeys(
                    of: .apps, directory: map.directory(of: place, in: root),
                    options: StoreOptions(settings))
            } catch {
                throw .shardStore(error, shard: map.names[place])
            }
            if let fault = Self.moved(names, in: map.names[place], to: map) { throw .shards(fault) }
        }
    }

    /// Why apps that a shard has do not fit a map; nil if they do.
    static func moved(_ apps: [[UInt8]], in shard: String, to map: ShardMap) -> String? {
        for app in apps {
            let configured = map.names[map.place(ofApp: app)]
            if configured == shard { continue }
            return "the app \(String(decoding: app, as: UTF8.self)) is in the store of the shard "
                + "\(shard), and \"shards\" has it in \(configured): an app cannot be moved "
                + "between shards yet, so name it in \(shard) again"
        }
        return nil
    }

    /// Whether the shard at a place has a store.
    func hasStore(_ place: Int) -> Bool {
        let directory = map.directory(of: place, in: root)
        return access("\(directory)/\(LMDBQueueStore.dataFileName)", F_OK) == 0
    }

    private func isBrokenLink(_ path: String) -> Bool {
        var information = stat()
        return lstat(path, &information) == 0 && stat(path, &information) != 0
    }

    /// A directory with the store of a shard that the map does not have.
    private func unnamedStore() -> String? {
        let folder = "\(root)/\(ShardMap.folder)"
        guard let directory = opendir(folder) else { return nil }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard !map.names.dropFirst().contains(name), name != ".", name != "..",
                access("\(folder)/\(name)/\(LMDBQueueStore.dataFileName)", F_OK) == 0
            else { continue }
            return "\(folder)/\(name)"
        }
        return nil
    }

    // MARK: - The stores of the last start

    /// The names of the shards whose stores the last start has opened, a line each. Without it a
    /// disk that is not mounted would look like a shard that is new.
    private var openedFile: String { "\(root)/\(ShardMap.folder)/\(Self.openedFileName)" }

    private static let openedFileName = "opened"

    private func readOpened() throws(StartError) -> [String] {
        do throws(CredentialError) {
            let content = try PrivateFile.read(openedFile) ?? []
            return String(decoding: content, as: UTF8.self).split(separator: "\n").map(String.init)
        } catch {
            throw .credentials(error)
        }
    }

    /// Notes that all stores are open.
    func noteOpened() throws(StartError) {
        let names = Array(map.names.dropFirst())
        guard !names.isEmpty, try readOpened() != names else { return }
        do throws(CredentialError) {
            try PrivateFile.write(
                Array(names.map { "\($0)\n" }.joined().utf8), to: openedFile)
            try PrivateDirectory.sync("\(root)/\(ShardMap.folder)")
        } catch {
            throw .credentials(error)
        }
    }
}
