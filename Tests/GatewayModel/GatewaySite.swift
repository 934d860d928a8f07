// A gateway's machine with a correct broker, and devices whose every byte the test decides: all in
// one process, with a clock that the test sets. For any input of the devices, the broker checks
// that it receives only what a gateway may send.

import Gateway
import MartletClient
import PacketMeanings
import Primitives
import WireFormat

/// A gateway, its broker and its lines.
package final class GatewaySite {
    package var machine: GatewayMachine
    package var broker = ModelBroker()
    package private(set) var now = Instant(milliseconds: 1_000_000)
    /// What each line has brought its device since the test last took it.
    package private(set) var written: [[UInt8]]
    package private(set) var isLineWanted: [Bool]
    package private(set) var log: [String] = []
    package private(set) var failure: String?
    package private(set) var isDialWanted = false
    package private(set) var isUplinkOpen = false
    /// Bytes that the network to the broker holds; set by a test that lets the broker stall.
    package var stalledByteCount = 0
    /// Looking at every line in every turn is slow where there are a thousand.
    package var checksInvariants = true
    package private(set) var identities: [ModelBroker.Identity]

    /// - Parameter ports: those of the broker's addresses.
    package init(_ names: [String], ports: [UInt16] = [2]) {
        var lines: [LineSettings] = []
        for name in names { lines.append(LineSettings("\(name)=tcp://127.0.0.1:1")!) }
        identities = lines.map { ModelBroker.Identity(user: $0.user, device: $0.device) }
        broker.identities = Set(identities)
        let servers = ports.map { ServerAddress(transport: .tcp, host: "127.0.0.1", port: $0) }
        let settings = GatewaySettings(servers: servers, tls: nil, token: "t", lines: lines)
        machine = GatewayMachine(settings, jitterSeed: 7, outboxEpoch: 9)
        written = Array(repeating: [], count: names.count)
        isLineWanted = Array(repeating: false, count: names.count)
        machine.start(now: now)
        turn()
    }

    /// Everything open, the broker there.
    package static func ready(_ names: [String]) -> GatewaySite {
        let site = GatewaySite(names)
        for index in names.indices { site.openLine(index) }
        site.openUplink()
        return site
    }

    // MARK: - Steps

    package func openLine(_ index: Int) {
        guard isLineWanted[index] else { return }
        isLineWanted[index] = false
        machine.lineOpened(index, now: now)
        turn()
    }

    package func loseLine(_ index: Int) {
        machine.lineClosed(index, "lost", now: now)
        written[index] = []
        turn()
    }

    package func openUplink() {
        guard isDialWanted else { return }
        isDialWanted = false
        isUplinkOpen = true
        broker.connectionBegan()
        machine.uplinkOpened(now: now)
        turn()
    }

    package func loseUplink() {
        guard isUplinkOpen else { return }
        isUplinkOpen = false
        machine.uplinkClosed("the network broke the connection", now: now)
        turn()
    }

    /// The attempt to connect to the broker fails.
    package func failUplink(_ detail: String) {
        guard isDialWanted else { return }
        isDialWanted = false
        machine.uplinkClosed(detail, now: now)
        turn()
    }

    /// A signal changes the lines; they have these names.
    package func setLines(_ names: [String]) {
        let lines = names.map { LineSettings("\($0)=tcp://127.0.0.1:1")! }
        identities += lines.map { ModelBroker.Identity(user: $0.user, device: $0.device) }
        broker.identities = Set(identities)
        machine.setLines(lines, now: now)
        // A place for each of them, removed ones included.
        while written.count < identities.count {
            written.append([])
            isLineWanted.append(false)
        }
        turn()
    }

    /// A signal stops the gateway.
    package func stop() {
        machine.stop(now: now)
        turn()
    }

    /// Bytes of a line, as one read brings them.
    package func receive(_ bytes: [UInt8], on index: Int) {
        guard machine.summary(of: index).isOpen, !machine.summary(of: index).isPaused else {
            return
        }
        bytes.withUnsafeBytes { machine.lineReceived($0, index, now: now) }
        turn()
    }

    /// Bytes of the broker's, whatever they are.
    package func receiveFromBroker(_ bytes: [UInt8]) {
        guard isUplinkOpen else { return }
        bytes.withUnsafeBytes { machine.uplinkReceived($0, now: now) }
        turn()
    }

    package func pass(milliseconds: UInt64) {
        now = now.advanced(byMilliseconds: milliseconds)
        turn()
    }

    package func takeWritten(_ index: Int) -> [UInt8] {
        defer { written[index] = [] }
        return written[index]
    }

    /// Turns until nothing is left to do.
    package func turn() {
        repeat {
            machine.work(uplinkByteCount: stalledByteCount, now: now)
            if checksInvariants { machine.checkInvariants() }
            carryOut()
            for index in machine.takeSpeaking() {
                written[index] += machine.takeOutgoing(of: index, atMost: .max)
            }
            let bytes = machine.takeOutgoing()
            guard isUplinkOpen else { continue }
            broker.receive(bytes)
            let answer = broker.takeAnswers()
            if !answer.isEmpty {
                answer.withUnsafeBytes { machine.uplinkReceived($0, now: now) }
            }
        } while isBusy
    }

    /// A function of its own: within the loop's condition the optimiser of Swift 6.3 lets the read
    /// of the machine last into the next round, which ends the fuzz target at its first input.
    @inline(never) private var isBusy: Bool {
        let hasWork = machine.hasWork(uplinkByteCount: stalledByteCount)
        return hasWork || machine.hasOutput
    }

    private func carryOut() {
        for effect in machine.takeEffects() {
            switch effect {
            case .dial: isDialWanted = true
            case .hangUp: isUplinkOpen = false
            case .open(let index): isLineWanted[index] = true
            case .close(let index, let last):
                written[index] += last
                isLineWanted[index] = false
            case .pause, .resume: break
            case .log(let line):
                precondition(line.utf8.allSatisfy { $0 >= 0x20 }, "a line that is two")
                log.append(line)
            case .fail(let reason): failure = reason
            }
        }
    }
}
