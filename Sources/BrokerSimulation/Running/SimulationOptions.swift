// What a run is made of: everything that decides it, so that the same options give the same run.

/// The options of one run.
public struct SimulationOptions: Hashable, Sendable {
    public var seed: UInt64
    /// Occurrences until the troubles end and everything has to come to rest. A run with fewer
    /// steps is the beginning of one with more.
    public var stepMaximum: Int
    /// Troubles that may happen.
    public var troubles: Troubles
    /// A planted bug.
    public var mutation: Mutation?

    /// Enough for some hundred messages and a dozen troubles.
    public static let stepMaximumDefault = 2_000

    public init(
        seed: UInt64, stepMaximum: Int = stepMaximumDefault, troubles: Troubles = .all,
        mutation: Mutation? = nil
    ) {
        self.seed = seed
        self.stepMaximum = stepMaximum
        self.troubles = troubles
        self.mutation = mutation
    }

    /// The command that repeats this run.
    public var command: String {
        var words = ["martlet-sim", "--seed", "\(seed)", "--steps", "\(stepMaximum)"]
        for trouble in Troubles.names {
            if !troubles.contains(trouble.trouble) { words += ["--without", trouble.name] }
        }
        if let mutation { words += ["--mutation", mutation.rawValue] }
        return words.joined(separator: " ")
    }
}

/// Kinds of trouble, each of which can be left out.
public struct Troubles: OptionSet, Hashable, Sendable {
    public var rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Connections are lost at any byte.
    public static let cuts = Troubles(rawValue: 1 << 0)
    /// Clients do not read for a while.
    public static let stalls = Troubles(rawValue: 1 << 1)
    /// Clients lose power between any two of their own steps.
    public static let power = Troubles(rawValue: 1 << 2)
    /// The broker dies, with what it has not committed, or in the middle of a commit.
    public static let crashes = Troubles(rawValue: 1 << 3)
    /// The broker is stopped and started as an operator does it.
    public static let restarts = Troubles(rawValue: 1 << 4)
    /// The store has no room for a while.
    public static let fullStore = Troubles(rawValue: 1 << 5)
    /// Commits take long.
    public static let slowStore = Troubles(rawValue: 1 << 6)
    /// Clients go away and come back, also after their sessions have expired.
    public static let absences = Troubles(rawValue: 1 << 7)
    /// A second client logs in as a device that is connected.
    public static let rivals = Troubles(rawValue: 1 << 8)
    /// Somebody sets the wall clock.
    public static let clockSteps = Troubles(rawValue: 1 << 9)

    /// No trouble, but left out like one: clients that speak MQTT.
    public static let mqtt = Troubles(rawValue: 1 << 10)
    /// As above: devices that gateways carry.
    public static let gateways = Troubles(rawValue: 1 << 11)
    /// Clients whose rights allow less than everything.
    public static let rights = Troubles(rawValue: 1 << 12)
    /// Clients that send again under a message id that they have used before.
    public static let repeats = Troubles(rawValue: 1 << 13)
    /// Members of shares that leave, also for good, and whose sessions are not stored.
    public static let leavers = Troubles(rawValue: 1 << 14)
    /// Owners of groups that change allow lists and meta texts, also while the store is full.
    public static let rows = Troubles(rawValue: 1 << 15)
    /// A user with two devices that go away in turn, for longer than their sessions last.
    public static let siblings = Troubles(rawValue: 1 << 16)

    /// A backup is put back, and the broker is started several times.
    public static let backups = Troubles(rawValue: 1 << 17)

    /// What a run has where nobody says otherwise.
    public static let all: Troubles = [
        .cuts, .stalls, .power, .crashes, .restarts, .fullStore, .slowStore, .absences, .rivals,
        .clockSteps, .mqtt, .gateways, .repeats, .rights, .leavers, .siblings, .backups, .rows,
    ]

    /// The names on the command line.
    public static let names: [(name: String, trouble: Troubles)] = [
        ("cuts", .cuts), ("stalls", .stalls), ("power", .power), ("crashes", .crashes),
        ("restarts", .restarts), ("full-store", .fullStore), ("slow-store", .slowStore),
        ("absences", .absences), ("rivals", .rivals), ("clock-steps", .clockSteps),
        ("mqtt", .mqtt), ("gateways", .gateways), ("rights", .rights), ("repeats", .repeats),
        ("leavers", .leavers), ("rows", .rows), ("siblings", .siblings),
        ("backups", .backups),
    ]
}
