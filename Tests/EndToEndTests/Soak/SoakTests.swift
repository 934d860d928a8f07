// Hours of ordinary load in one run: steady traffic of all kinds, connections that break, devices
// that sleep, clients that connect and are cut, a restart, a crash. Nothing may be lost, and
// nothing may grow.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(600))) struct SoakTests {
        /// Seconds of each of the three lives of the broker. More by MARTLET_SOAK_MINUTES, which is
        /// for all of them; docs/TESTING.md keeps the figures.
        private static let lifeSeconds =
            ProcessInfo.processInfo.environment["MARTLET_SOAK_MINUTES"]
            .flatMap { Double($0) }.map { $0 * 20 } ?? 5
        private static let samplesPerLife = 10

        @Test func `a fleet on bad networks loses nothing, and the broker does not grow`()
            async throws
        {
            let broker = try await TestBroker()
            let soak = try await Soak(broker)
            try await soak.begin()
            print(SoakSample.heading)
            var lives: [[SoakSample]] = []
            for life in 0..<3 {
                if life > 0 {
                    try await soak.quiet()
                    // The first life ends in order, the second one does not.
                    if life == 1 { try await broker.stop() } else { try await broker.killNow() }
                    try await broker.start()
                    try await soak.goOn()
                }
                lives.append(
                    try await soak.live(seconds: Self.lifeSeconds, samples: Self.samplesPerLife))
            }
            try await soak.end()
            for samples in lives {
                let descriptors = settled(samples).map(\.descriptorCount)
                // Connections that come and go at any moment: those of the link, twice, and of the
                // churn.
                #expect(descriptors.max()! - descriptors.min()! <= 16, "\(descriptors)")
                if Sanitizer.isThere {
                    print("memory is not compared: the sanitizer keeps what is freed")
                } else {
                    #expect(growth(samples) == nil)
                }
            }
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }

        /// What "does not grow" is worth: the same broker, told to free nothing.
        @Test(.enabled(if: !Sanitizer.isThere, "a sanitizer frees memory in its own way"))
        func `a leaking broker is detected`() async throws {
            let leak = ChildProcess.programs.appending(path: "libMemoryLeak.so").path
            let broker = try await TestBroker(settings: [], environment: ["LD_PRELOAD": leak])
            let soak = try await Soak(broker)
            try await soak.begin()
            let samples = try await soak.live(seconds: 5, samples: Self.samplesPerLife)
            try await soak.end()
            let leaked = try #require(growth(samples))
            print("a leak: \(leaked)")
            try await broker.stop()
        }

        /// After the first three of ten, a life is as it will be.
        private func settled(_ samples: [SoakSample]) -> [ProcessGauges] {
            samples.dropFirst(Self.samplesPerLife * 3 / 10).map(\.gauges)
        }

        /// By how much the broker's own memory has grown; nil where it has not.
        private func growth(_ samples: [SoakSample]) -> String? {
            let kilobytes = settled(samples).map(\.anonymousKilobytes)
            // A tenth, and what a few more blocks of the allocator are.
            let bound = kilobytes[0] * 11 / 10 + 2_048
            return kilobytes.max()! <= bound
                ? nil : "\(kilobytes[0]) KiB grew to \(kilobytes.max()!)"
        }
    }
}

/// All that goes on at once, and what it has to come to.
private final class Soak {
    private let broker: TestBroker
    private let link: FlappingLink
    private let churn: Churn
    /// Of these the first half is on the line that breaks.
    private var receivers: [SoakReceiver] = []
    /// Away most of the time.
    private let sleeper: SoakReceiver
    private let watcher: SoakReceiver
    /// Each event stream with those who must receive all of it.
    private var streams: [(stream: SoakStream, receivers: [SoakReceiver])] = []
    private var senders: [Task<Void, any Error>] = []
    private let start = ContinuousClock.now
    private var lastCut = ContinuousClock.now - .seconds(72)

    /// Seconds that the sleeper is away, and then there, at most.
    private static let longestNap = 3.0
    private static let cutInterval = 75.0
    private static let senderCount = 4

    init(_ broker: TestBroker) async throws {
        self.broker = broker
        let link = try FlappingLink(to: broker.tlsPort)
        self.link = link
        churn = Churn(port: broker.plainPort, pauseSeconds: 0.2)
        func receiver(_ user: String, isOnLink: Bool) throws -> SoakReceiver {
            SoakReceiver(user, try Self.settings(broker, user, isOnLink ? link : nil))
        }
        for number in 0..<6 {
            receivers.append(try receiver("soak-\(number)", isOnLink: number < 3))
        }
        sleeper = try receiver("sleeper", isOnLink: false)
        watcher = try receiver("watcher", isOnLink: false)
    }

    private static func settings(
        _ broker: TestBroker, _ user: String, _ link: FlappingLink?
    ) throws -> ClientSettings {
        var settings = try broker.settings(user)
        if let link { settings.servers = [ServerAddress(host: "localhost", port: link.port)] }
        return settings
    }

    func begin() async throws {
        for receiver in receivers + [sleeper, watcher] { try await receiver.open() }
        for receiver in receivers { try await receiver.client!.subscribe(to: "soak/+/state") }
        try await watcher.client!.subscribe(to: "soak/wills", grade: .once)
        // Half of the senders are on the line that breaks, too.
        var clients: [Client] = []
        for number in 0..<Self.senderCount {
            let user = "sender-\(number)"
            let settings = try Self.settings(broker, user, number % 2 == 0 ? link : nil)
            clients.append(try await connected(Client(settings)))
        }
        let group = try await clients[0].createGroup(title: "soak")
        for receiver in receivers { try await receiver.client!.joinGroup(group) }
        for (number, receiver) in receivers.enumerated() {
            let grade: Grade = number % 2 == 0 ? .durable : .once
            let stream = SoakStream(
                "user-\(number)", to: .user(receiver.user), grade, perSecond: 40)
            send(stream, clients[number % Self.senderCount], to: [receiver])
        }
        send(
            SoakStream("group", to: .group(group), .durable, perSecond: 5), clients[0],
            to: receivers)
        send(
            SoakStream("topic", to: .topic("soak/7/state"), .once, perSecond: 5), clients[1],
            to: receivers)
        send(
            SoakStream("sleeper", to: .user("sleeper"), .once, perSecond: 10), clients[2],
            to: [sleeper])
        send(
            SoakStream("everybody", to: .everybody, .durable, perSecond: 1), clients[3],
            to: receivers + [sleeper, watcher])
        churn.resume()
    }

    private func send(_ stream: SoakStream, _ client: Client, to receivers: [SoakReceiver]) {
        streams.append((stream, receivers))
        senders.append(Task { try await stream.run(client) })
    }

    /// Lets it all go on, with a line that breaks and a device that sleeps and wakes.
    func live(seconds: Double, samples: Int) async throws -> [SoakSample] {
        var result: [SoakSample] = []
        for number in 0..<samples {
            let end = ContinuousClock.now + .seconds(seconds / Double(samples))
            _ = takeLatencies()
            let nap = min(Self.longestNap, seconds / Double(samples) / 2)
            repeat {
                cutLink()
                await sleeper.close()
                await Deadline(seconds: nap).wait()
                try await sleeper.open()
                await Deadline(seconds: nap).wait()
            } while ContinuousClock.now < end
            result.append(try sample())
            print(result[number])
        }
        return result
    }

    /// Not so often that its clients take it for dead, and wait longer and longer.
    private func cutLink() {
        guard ContinuousClock.now - lastCut > .seconds(Self.cutInterval) else { return }
        link.cut()
        lastCut = ContinuousClock.now
    }

    private func takeLatencies() -> [Double] {
        receivers.flatMap { $0.takeLatencies() }
    }

    private func sample() throws -> SoakSample {
        SoakSample(
            minutes: (ContinuousClock.now - start) / .seconds(60),
            gauges: try ProcessGauges(broker.process),
            connected: try broker.counter("clients/connected"),
            stored: try broker.counter("messages/stored"),
            storeBytes: try broker.counter("store/used/bytes"),
            milliseconds: takeLatencies())
    }

    /// Before the broker's end: whose will has to come is certain for those only who were gone
    /// before.
    func quiet() async throws {
        try await churn.pause()
        try await wills()
    }

    private func wills() async throws {
        do {
            try await eventually("all wills") { churn.wills.isSubset(of: watcher.wills) }
        } catch {
            let missing = churn.wills.subtracting(watcher.wills).sorted()
            throw TestFailure("\(error): \(missing) of \(churn.cycleCount)")
        }
    }

    /// After the broker's start. Its clients wait longer and longer between their attempts: when
    /// all are back, what is measured does not grow with them.
    func goOn() async throws {
        let count = UInt64(receivers.count + Self.senderCount + 2)
        try await eventually(within: 150, "all who come back") {
            try broker.counter("clients/connected") >= count
        }
        churn.resume()
    }

    /// Waits until all that was acknowledged has arrived.
    func end() async throws {
        for (stream, _) in streams { stream.end() }
        for sender in senders { try await sender.value }
        try await quiet()
        churn.stop()
        for (stream, receivers) in streams {
            // A client whose line broke often waits up to two minutes before it comes again.
            do {
                try await eventually(within: 150, "all of \(stream.name)") {
                    receivers.allSatisfy { $0.has(stream) }
                }
            } catch {
                let accounts = receivers.filter { !$0.has(stream) }.map { $0.account(of: stream) }
                throw TestFailure("\(error): \(accounts)")
            }
            #expect(stream.acknowledged > 0)
        }
        #expect(churn.wills == watcher.wills, "wills of clients that said good-bye")
        #expect(churn.failures == [] && churn.cycleCount > 0)
        for receiver in receivers + [sleeper, watcher] {
            #expect(receiver.violations == [])
            await receiver.close()
        }
        link.end()
        let sent = streams.map(\.stream.acknowledged).reduce(0, +)
        let marked = (receivers + [sleeper, watcher]).map(\.markedCount).reduce(0, +)
        print("soak: \(sent) acknowledged, \(marked) possible duplicates, \(churn.cycleCount) came")
    }
}
