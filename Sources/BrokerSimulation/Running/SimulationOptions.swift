// The options of a run. The same options give the same run.

/// The options of one run.
public struct SimulationOptions: Hashable, Sendable {
    public var seed: UInt64
    /// Occurrences until the faults end and everything must come to rest. A run with fewer steps is
    /// the beginning of one with more.
    public var stepMaximum: Int
    /// Faults that may happen.
    public var faults: Faults
    /// A planted bug.
    public var mutation: Mutation?
    /// Nodes of a cluster; 1 for a broker without one.
    public var nodeCount: Int

    /// Enough for several hundred messages and a dozen faults.
    public static let stepMaximumDefault = 2_000

    public init(
        seed: UInt64, stepMaximum: Int = stepMaximumDefault, faults: Faults = .all,
        mutation: Mutation? = nil, nodeCount: Int = 1
    ) {
        self.nodeCount = nodeCount
        self.seed = seed
        self.stepMaximum = stepMaximum
        self.faults = faults
        self.mutation = mutation
    }

    /// A run of the kind that shows a planted bug.
    public init(seed: UInt64, showing mutation: Mutation) {
        self.init(
            seed: seed, stepMaximum: mutation.stepMaximum, faults: mutation.faults,
            mutation: mutation, nodeCount: mutation.nodeCount)
    }

    /// The command that repeats this run.
    public var command: String {
        var words = ["martlet-sim", "--seed", "\(seed)", "--steps", "\(stepMaximum)"]
        for fault in Faults.names {
            if !faults.contains(fault.fault) { words += ["--without", fault.name] }
        }
        if let mutation { words += ["--mutation", mutation.rawValue] }
        if nodeCount != mutation?.nodeCount ?? 1 { words += ["--nodes", "\(nodeCount)"] }
        return words.joined(separator: " ")
    }
}

/// Kinds of faults, each of which can be excluded.
public struct Faults: OptionSet, Hashable, Sendable {
    public var rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Connections are lost at any byte.
    public static let cuts = Faults(rawValue: 1 << 0)
    /// Clients do not read for a while.
    public static let stalls = Faults(rawValue: 1 << 1)
    /// Clients lose power between any two of their own steps.
    public static let power = Faults(rawValue: 1 << 2)
    /// The broker is killed, with its uncommitted data, or within a commit.
    public static let crashes = Faults(rawValue: 1 << 3)
    /// The broker is stopped and started as an operator does it.
    public static let restarts = Faults(rawValue: 1 << 4)
    /// The store has no space for a while.
    public static let fullStore = Faults(rawValue: 1 << 5)
    /// Commits take long.
    public static let slowStore = Faults(rawValue: 1 << 6)
    /// Clients disconnect and return, also after their sessions have expired.
    public static let absences = Faults(rawValue: 1 << 7)
    /// A second client logs in as a device that is connected.
    public static let rivals = Faults(rawValue: 1 << 8)
    /// The wall clock is set.
    public static let clockSteps = Faults(rawValue: 1 << 9)

    /// Not a fault, but excluded in the same way: MQTT clients.
    public static let mqtt = Faults(rawValue: 1 << 10)
    /// As above: devices that gateways carry.
    public static let gateways = Faults(rawValue: 1 << 11)
    /// Clients with restricted rights.
    public static let rights = Faults(rawValue: 1 << 12)
    /// Clients that send again under a message id that they have used before.
    public static let repeats = Faults(rawValue: 1 << 13)
    /// Members of shares that leave, also permanently, and whose sessions are not stored.
    public static let leavers = Faults(rawValue: 1 << 14)
    /// Owners of groups that change allow lists and meta texts, also while the store is full.
    public static let rows = Faults(rawValue: 1 << 15)
    /// A user with two devices that disconnect in turn, for longer than their sessions last.
    public static let siblings = Faults(rawValue: 1 << 16)

    /// A backup is restored, and the broker is started several times.
    public static let backups = Faults(rawValue: 1 << 17)
    /// Messages that are kept, pages of conversations, and read marks.
    public static let history = Faults(rawValue: 1 << 18)

    /// Messages whose senders ask for receipts.
    public static let receipts = Faults(rawValue: 1 << 19)
    /// Messages that are recalled, replaced, or give way to newer ones.
    public static let revisions = Faults(rawValue: 1 << 20)

    /// Devices that pull what is kept, where messages are kept.
    public static let pulls = Faults(rawValue: 1 << 22)
    /// Topics whose publications are kept.
    public static let topicHistory = Faults(rawValue: 1 << 23)

    /// A relay that wakes users, and users who have wake targets.
    public static let wakes = Faults(rawValue: 1 << 24)
    /// A moderator who decides on messages.
    public static let moderation = Faults(rawValue: 1 << 25)

    /// What a cluster's run contains: its own faults replace those of one broker and its store.
    public static let cluster: Faults = [
        .cuts, .stalls, .power, .absences, .rivals, .mqtt, .gateways, .repeats, .rights, .leavers,
        .siblings,
    ]

    /// The default of a run.
    public static let all: Faults = [
        .cuts, .stalls, .power, .crashes, .restarts, .fullStore, .slowStore, .absences, .rivals,
        .clockSteps, .mqtt, .gateways, .repeats, .rights, .leavers, .siblings, .backups, .rows,
        .history, .receipts, .revisions, .pulls, .topicHistory, .wakes, .moderation,
    ]

    /// The names on the command line.
    public static let names: [(name: String, fault: Faults)] = [
        ("cuts", .cuts), ("stalls", .stalls), ("power", .power), ("crashes", .crashes),
        ("restarts", .restarts), ("full-store", .fullStore), ("slow-store", .slowStore),
        ("absences", .absences), ("rivals", .rivals), ("clock-steps", .clockSteps),
        ("mqtt", .mqtt), ("gateways", .gateways), ("rights", .rights), ("repeats", .repeats),
        ("leavers", .leavers), ("rows", .rows), ("siblings", .siblings),
        ("backups", .backups), ("history", .history), ("receipts", .receipts),
        ("pulls", .pulls), ("revisions", .revisions), ("topic-history", .topicHistory),
        ("wakes", .wakes), ("moderation", .moderation),
    ]
}
