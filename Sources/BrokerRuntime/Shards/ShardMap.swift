// Which shard has which app. A shard is a set of apps with a core, a store and a writer of their
// own; the configuration names the apps of each, and all others belong to the default one.

import Configuration
import Primitives

/// The names of the shards, the directories of their stores, and the places of the apps.
struct ShardMap: Sendable {
    /// By the places of the shards. The first one is the default shard.
    let names: [String]
    private let places: [[UInt8]: Int]

    /// Nodes compare it (``NodeReport/shards``): equal if the same apps are in the same shards, in
    /// whatever order. Another sum needs another version of the report.
    let checksum: UInt64
    private static let checksumSeed: UInt64 = 0x7368_6172_6473

    /// One shard with all apps.
    init() { self.init([]) }

    init(_ settings: [ShardSettings]) {
        names = [ShardSettings.defaultName] + settings.map(\.name)
        var places: [[UInt8]: Int] = [:]
        for (index, shard) in settings.enumerated() {
            for app in shard.apps { places[Array(app.utf8)] = index + 1 }
        }
        self.places = places
        var sum = Checksum(seed: Self.checksumSeed)
        func add(_ text: String) {
            Array(text.utf8).withUnsafeBytes { sum.mix($0) }
        }
        func precedes(_ one: String, _ other: String) -> Bool {
            one.utf8.lexicographicallyPrecedes(other.utf8)
        }
        for shard in settings.sorted(by: { precedes($0.name, $1.name) }) {
            add(shard.name)
            sum.mix(UInt64(shard.apps.count))
            for app in shard.apps.sorted(by: precedes) {
                add(app)
            }
        }
        checksum = sum.value
    }

    var count: Int { names.count }

    /// The place of the shard that has an app, whether there is such an app or not.
    func place(ofApp app: [UInt8]) -> Int { places.isEmpty ? 0 : places[app] ?? 0 }

    /// The folder of the stores of shards, in the data directory.
    static let folder = "shards"

    /// The directory of the store of a shard.
    ///
    /// - Parameter root: the directory of the default shard's store: the data directory, or a
    ///   backup.
    func directory(of place: Int, in root: String) -> String {
        place == 0 ? root : "\(root)/\(Self.folder)/\(names[place])"
    }

    /// The settings with which the store of one shard is opened, and its log.
    func settings(of place: Int, _ settings: BrokerSettings) -> BrokerSettings {
        var own = settings
        own.dataDirectory = directory(of: place, in: settings.dataDirectory)
        if place > 0 { own.cluster.stream = "\(settings.cluster.stream)-\(names[place])" }
        return own
    }

    /// A shard in the log and in errors; nil for the only one.
    func label(of place: Int) -> String? { count > 1 ? names[place] : nil }
}
