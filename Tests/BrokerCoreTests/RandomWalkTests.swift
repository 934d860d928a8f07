// A seeded walk through all that can happen to a few devices: connections come and go, commits are
// slow, the store is full at times, the broker dies. What is checked is only what was promised:
// acknowledged is not lost, once is not twice, numbers rise and are never used again. The
// simulation does the same with real bytes and a real client; this one is small enough to think
// about.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A random walk` {
    @Test(arguments: 1...24 as ClosedRange<UInt64>)
    func `keeps every promise`(seed: UInt64) {
        var walker = Walker(seed: seed)
        for step in 0..<400 {
            walker.walk()
            if let complaint = walker.complaint {
                Issue.record("seed \(seed), step \(step): \(complaint)")
                return
            }
        }
        walker.comeHome()
        #expect(walker.complaint == nil, "seed \(seed)")
        #expect(walker.missing() == [], "seed \(seed)")
        #expect(walker.faultsOfHistory() == [], "seed \(seed)")
        let gauges = walker.world.gauges
        #expect(gauges.queuedMessages == 0 && gauges.messagesInMemory == 0, "seed \(seed)")
        walker.world.pass(seconds: walker.world.limits.historyAgeSecondsMaximum + 3_600)
        walker.world.settle()
        #expect(walker.world.store.heldMessages == [], "seed \(seed)")
    }
}

/// One device, as its own flash and its application see it.
private struct Device {
    let user: String
    let name: String
    var isConnected = false
    /// Whether it has been told that it is in.
    var isAccepted = false
    var epoch: UInt64 = 0
    /// The last inbox number it holds, and the last it was sent on this connection.
    var held: UInt64 = 0
    var sent: UInt64 = 0
    /// What was behind each inbox number it ever saw.
    var numbers: [UInt64: String] = [:]
    /// How often each message was processed, and how often without a mark.
    var processed: [String: (count: Int, unmarked: Int)] = [:]
    var nextNumber: UInt64 = 1
    /// Sends without a result, by number.
    var open: [UInt64: Send] = [:]
}

private struct Send {
    let text: String
    let grade: Grade
    let receivers: [String]
    let target: Target
    /// Its users, if it is kept in their conversations.
    let keptWith: [String]
}

private struct Walker {
    let world = World()
    private(set) var complaint: String?
    private var random: WalkRandom
    private var devices: [Device]
    private var isCommitting = false
    private var isFull = false
    /// Messages whose sender was told of success with nobody refused.
    private var kept: [Send] = []
    private var messageCount = 0
    /// Reasons for which a durable message may come twice, marked.
    private var doubts = 0

    init(seed: UInt64) {
        random = WalkRandom(seed: seed)
        devices = ["ann/1", "ann/2", "bob/1", "carl/1", "carl/2"].map {
            Device(user: String($0.prefix { $0 != "/" }), name: $0)
        }
        for index in devices.indices { connect(index) }
        world.settle()
        listen()
    }

    // MARK: - Steps

    mutating func walk() {
        let index = Int(random.below(UInt64(devices.count)))
        switch random.below(100) {
        case 0..<35: send(from: index)
        case 35..<55: acknowledge(index)
        case 55..<62: devices[index].isConnected ? lose(index) : connect(index)
        case 62..<70: if !devices[index].isConnected { connect(index) }
        case 70..<95: isCommitting ? finishCommit() : beginCommit()
        case 95..<97: crash()
        case 97..<98: toggleFull()
        default: world.pass(milliseconds: random.below(8_000))
        }
        listen()
    }

    /// Everybody comes back, there is room, and all is drained.
    mutating func comeHome() {
        if isCommitting { finishCommit() }
        if isFull { toggleFull() }
        for _ in 0..<3 {
            world.pass(seconds: 10)
            world.settle()
        }
        for _ in 0..<200 {
            for index in devices.indices where !devices[index].isConnected { connect(index) }
            world.settle()
            listen()
            for index in devices.indices { acknowledge(index) }
            listen()
        }
        world.settle()
        listen()
    }

    /// Receivers who never got what their sender was told they would.
    func missing() -> [String] {
        kept.flatMap { send in
            send.receivers.filter { name in
                devices.first { $0.name == name }!.processed[send.text] == nil
            }.map { "\(send.text) for \($0)" }
        }
    }

    /// What is not in a conversation though its sender was told so, and what is there twice without
    /// a reason.
    func faultsOfHistory() -> [String] {
        let users = ["ann", "bob", "carl"]
        var faults: [String] = []
        for pair in users.flatMap({ first in users.map { first + " " + $0 } }) {
            let parts = pair.split(separator: " ").map(String.init)
            var texts: [String: Int] = [:]
            var last = UInt64.max
            for message in world.history(of: parts[0], and: parts[1], pageCount: 7) {
                if message.number >= last { faults.append("#\(message.number) of \(pair)") }
                last = message.number
                texts[message.text, default: 0] += 1
            }
            for (text, count) in texts where count > 1 + doubts {
                faults.append("\(text) is \(count) times in \(pair)")
            }
            for send in kept where send.keptWith.contains(pair) {
                let count = texts[send.text] ?? 0
                if count == 0 || send.grade == .once && count > 1 {
                    faults.append("\(send.text) is \(count) times in \(pair)")
                }
            }
        }
        return faults
    }

    private mutating func connect(_ index: Int) {
        let device = devices[index]
        let lowest = device.open.keys.min() ?? device.nextNumber
        devices[index].isConnected = true
        devices[index].isAccepted = false
        devices[index].sent = 0
        world.connect(
            device.name, expiry: index % 2 == 0 ? 3600 : nil, window: UInt16(1 + random.below(4)),
            resume: device.epoch == 0 ? nil : (device.epoch, device.held),
            outbox: (epoch: 7, seen: lowest - 1, used: device.nextNumber - 1),
            loop: UInt8(random.below(2)))
    }

    private mutating func lose(_ index: Int) {
        world.lose(devices[index].name)
        // What was delivered and not acknowledged may be refused by a full store.
        doubts += 1
        devices[index].isConnected = false
        devices[index].isAccepted = false
    }

    private mutating func send(from index: Int) {
        guard devices[index].isAccepted, devices[index].open.count < 20 else { return }
        let grade: Grade = [.durable, .durable, .once, .transient][Int(random.below(4))]
        let users = ["ann", "bob", "carl"]
        let target: Target
        let receivers: [Device]
        var named: [String] = []
        switch random.below(3) {
        case 0:
            let user = users[Int(random.below(3))]
            target = .user(user)
            named = [user]
            receivers = devices.filter { $0.user == user }
        case 1:
            named = users.filter { _ in random.below(2) == 0 }
            guard !named.isEmpty else { return }
            target = .users(named)
            receivers = devices.filter { named.contains($0.user) }
        default:
            target = .everybody
            receivers = devices.filter { $0.name != devices[index].name }
        }
        messageCount += 1
        let send = Send(
            text: "m\(messageCount)", grade: grade, receivers: receivers.map(\.name),
            target: target,
            keptWith: grade == .transient || random.below(3) > 0
                ? [] : named.map { devices[index].user + " " + $0 })
        let number = devices[index].nextNumber
        if grade != .transient {
            devices[index].open[number] = send
            devices[index].nextNumber += 1
        }
        world.send(
            devices[index].name, number, to: target, send.text, grade: grade,
            isKept: !send.keptWith.isEmpty)
    }

    private mutating func acknowledge(_ index: Int) {
        guard devices[index].isAccepted, devices[index].sent > 0 else { return }
        world.acknowledge(devices[index].name, through: devices[index].sent)
    }

    private mutating func beginCommit() { isCommitting = world.beginCommit() }

    private mutating func finishCommit() {
        isCommitting = false
        world.finishCommit()
    }

    private mutating func toggleFull() {
        isFull.toggle()
        world.store.isFull = isFull
    }

    private mutating func crash() {
        isCommitting = false
        doubts += 1
        _ = world.lines()
        world.crash(committing: random.below(2) == 0)
        for index in devices.indices {
            devices[index].isConnected = false
            devices[index].isAccepted = false
        }
    }

    // MARK: - What is heard

    private mutating func listen() {
        // What is heard makes clients speak, and be answered.
        while true {
            let lines = world.lines()
            if lines.isEmpty { return }
            for line in lines { hear(line) }
        }
    }

    private mutating func hear(_ line: String) {
        let name = String(line.prefix { $0 != ":" })
        let index = devices.firstIndex { $0.name == name }!
        let words = line.dropFirst(name.count + 2)
        if words.hasPrefix("#") {
            hearDelivery(index, words)
        } else if words.hasPrefix("result") {
            hearResult(index, words)
        } else if words.hasPrefix("accepted") {
            hearAcceptance(index)
        } else {
            complaint = line
        }
    }

    private mutating func hearAcceptance(_ index: Int) {
        let epoch = world.epochs[devices[index].name]!
        if devices[index].epoch != 0 && devices[index].epoch != epoch {
            complaint = "\(devices[index].name) has lost its session"
        }
        devices[index].epoch = epoch
        devices[index].isAccepted = true
        for (number, send) in devices[index].open.sorted(by: { $0.key < $1.key }) {
            world.send(
                devices[index].name, number, to: send.target, send.text, grade: send.grade,
                isKept: !send.keptWith.isEmpty)
        }
    }

    private mutating func hearDelivery(_ index: Int, _ words: Substring) {
        let text = String(words.split(separator: "\"")[1])
        guard let number = UInt64(words.dropFirst().prefix { $0 != " " }) else { return }
        if let earlier = devices[index].numbers[number], earlier != text {
            complaint = "#\(number) of \(devices[index].name) was \(earlier) and is \(text)"
        }
        if number <= devices[index].sent {
            complaint = "#\(number) of \(devices[index].name) comes after #\(devices[index].sent)"
        }
        devices[index].numbers[number] = text
        devices[index].sent = number
        guard number > devices[index].held else { return }
        devices[index].held = number
        let isMarked = words.hasSuffix("possible duplicate")
        let before = devices[index].processed[text] ?? (0, 0)
        let after = (count: before.count + 1, unmarked: before.unmarked + (isMarked ? 0 : 1))
        devices[index].processed[text] = after
        let isOnce = words.contains(", once")
        if after.unmarked > 1 || (isOnce && after.count > 1) || after.count > 1 + doubts {
            complaint = "\(devices[index].name) got \(text) \(after.count) times"
        }
    }

    private mutating func hearResult(_ index: Int, _ words: Substring) {
        let parts = words.split(separator: ", ")
        let number = UInt64(parts[0].split(separator: " ")[1])!
        // A result that was told before; or the refusal of a transient send.
        guard let send = devices[index].open.removeValue(forKey: number) else { return }
        switch parts[1] {
        case "sent": if parts.count == 2 { kept.append(send) }
        case "noMatchingSubscribers", "quotaExceeded": break
        default: complaint = String(words)
        }
        let lowest = devices[index].open.keys.min() ?? devices[index].nextNumber
        if devices[index].isAccepted && random.below(2) == 0 {
            world.seeResults(devices[index].name, through: lowest - 1)
        }
    }
}

/// Random numbers that a seed repeats: SplitMix64 (Steele, Lea, Flood 2014).
struct WalkRandom {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// A number from 0 up to but not including `bound`.
    mutating func below(_ bound: UInt64) -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return (mixed ^ (mixed >> 31)) % bound
    }

    /// One of several.
    mutating func of<Value>(_ values: [Value]) -> Value {
        values[Int(below(UInt64(values.count)))]
    }
}
