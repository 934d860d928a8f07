// The network between clients and broker: streams of bytes with delay, which are lost at any byte,
// reordered between connections, and read slowly. It knows no packets.

import BrokerTerms
import Primitives

/// One direction of a connection.
struct Pipe {
    /// Bytes in flight, in order.
    var bytes: [UInt8] = []
    /// The schedule of their arrival.
    var chunks: [Int] = []
    /// Bytes that are written from now on are lost.
    var isCut = false
    var lastArrival = Instant(milliseconds: 0)
}

/// One connection.
struct Link {
    let client: Int
    /// The gateway that it leads to; nil if it leads to the broker. The broker's end is then the
    /// gateway's.
    let gateway: Int?
    /// The gateway's own connection, once it carries this one.
    var gatewayLink: Int?
    /// The broker's id for it, and the start of the broker that it belongs to.
    var connection = ConnectionID(rawValue: 0)
    var life = 0
    var toBroker = Pipe()
    var toClient = Pipe()
    /// Whether an end considers the connection open.
    var isOpenAtBroker = false
    var isOpenAtClient = true
    /// The client does not read before this time.
    var stalledUntil = Instant(milliseconds: 0)
}

final class SimulatedNetwork {
    private let context: SimulationContext
    private(set) var links: [Link] = []
    /// The start of the broker that leads a cluster. Others may still be connected.
    var leader: Int?

    init(_ context: SimulationContext) {
        self.context = context
    }

    // MARK: Opening

    /// A client opens a connection; the result follows later.
    func open(client: Int, gateway: Int? = nil) -> Int {
        links.append(Link(client: client, gateway: gateway))
        context.enter(.linkOpened(link: links.count - 1), after: drawDelay())
        return links.count - 1
    }

    func accepted(_ link: Int, as connection: ConnectionID, life: Int) {
        links[link].connection = connection
        links[link].life = life
        links[link].isOpenAtBroker = true
    }

    /// A gateway accepts a device's connection.
    func carried(_ link: Int, over gatewayLink: Int) {
        links[link].gatewayLink = gatewayLink
        links[link].isOpenAtBroker = true
    }

    // MARK: Bytes

    /// Bytes that an end can write before it must wait. Like a socket, a full pipe accepts nothing
    /// until a good part of it is free.
    func room(on link: Int, towards end: End) -> Int {
        guard end == .client else { return .max }
        let capacity = context.profile.pipeCapacity
        let free = capacity - links[link].toClient.bytes.count
        return free >= capacity / 4 ? free : 0
    }

    /// Sends bytes, which arrive in one read of the other end or in several.
    func write(_ bytes: ArraySlice<UInt8>, on link: Int, towards end: End) {
        let pipe = pipe(end)
        guard !links[link][keyPath: pipe].isCut, !bytes.isEmpty else { return }
        links[link][keyPath: pipe].bytes += bytes
        var rest = bytes.count
        while rest > 0 {
            let isSplit = context.networkRandom.happens(perTenThousand: 1_500)
            let count = isSplit ? context.networkRandom.number(in: 1...rest) : rest
            rest -= count
            links[link][keyPath: pipe].chunks.append(count)
            var arrival = max(
                links[link][keyPath: pipe].lastArrival,
                context.now.advanced(byMilliseconds: drawDelay()))
            if end == .client { arrival = max(arrival, links[link].stalledUntil) }
            links[link][keyPath: pipe].lastArrival = arrival
            context.eventQueue.enter(.bytesArrived(link: link, at: end), at: arrival)
        }
    }

    /// The bytes that arrive at an end now; none if they were lost or nobody reads.
    func takeArrived(on link: Int, at end: End) -> [UInt8] {
        let pipe = pipe(end)
        guard !links[link][keyPath: pipe].chunks.isEmpty else { return [] }
        let count = links[link][keyPath: pipe].chunks.removeFirst()
        let bytes = Array(links[link][keyPath: pipe].bytes.prefix(count))
        links[link][keyPath: pipe].bytes.removeFirst(count)
        let isOpen = end == .client ? links[link].isOpenAtClient : links[link].isOpenAtBroker
        guard isOpen else { return [] }
        return context.misbehaves(.lostBytes, perTenThousand: 100) ? [] : bytes
    }

    /// The client of a link does not read for a while.
    func stall(_ link: Int, milliseconds: UInt64) {
        links[link].stalledUntil = context.now.advanced(byMilliseconds: milliseconds)
    }

    /// The start of the broker that a link leads to.
    func brokerStart(of link: Int) -> Int {
        links[link].gatewayLink.map(brokerStart) ?? links[link].life
    }

    /// Whether a client's answer on a link can still arrive.
    func isStanding(_ link: Int) -> Bool {
        links[link].isOpenAtBroker && !links[link].toBroker.isCut
            && links[link].gatewayLink.map(isStanding) ?? true
    }

    /// Whether the broker has its end open, and leads.
    func isReachable(_ link: Int) -> Bool {
        guard links[link].isOpenAtBroker else { return false }
        if let gatewayLink = links[link].gatewayLink { return isReachable(gatewayLink) }
        return links[link].gateway != nil || leader.map { $0 == links[link].life } ?? true
    }

    // MARK: Closing

    /// The network loses a connection at any byte. The client learns of it soon, the broker perhaps
    /// only from the client's silence.
    func cut(_ link: Int) {
        guard links[link].isOpenAtBroker || links[link].isOpenAtClient else { return }
        truncate(link, .broker)
        truncate(link, .client)
        context.oracle.connectionEnded(links[link].client)
        notice(link, by: .client, within: 5_000)
        let isNoticed = context.faultRandom.happens(perTenThousand: 6_000)
        // A gateway detects a silent line.
        if isNoticed || links[link].gateway != nil {
            notice(link, by: .broker, within: 20_000)
        }
    }

    /// The client closes its connection; written bytes still arrive.
    func closedByClient(_ link: Int) {
        links[link].isOpenAtClient = false
        drop(link, .client)
        links[link].toBroker.isCut = true
        notice(link, by: .broker, within: 100)
    }

    /// The client loses power at any point, and may lose unsent bytes with it.
    func clientDied(_ link: Int) {
        links[link].isOpenAtClient = false
        drop(link, .client)
        truncate(link, .broker)
        let isNoticed = context.powerRandom.happens(perTenThousand: 5_000)
        if isNoticed || links[link].gateway != nil {
            notice(link, by: .broker, within: 2_000)
        }
    }

    /// The broker closes a connection after its last byte.
    func closedByBroker(_ link: Int) {
        links[link].isOpenAtBroker = false
        drop(link, .broker)
        links[link].toClient.isCut = true
        notice(link, by: .client, within: 100)
    }

    /// The broker decides to close a connection; its unsent bytes go first.
    func givenUpByBroker(_ link: Int) {
        let client = links[link].client
        guard links.lastIndex(where: { $0.client == client }) == link else { return }
        context.oracle.connectionEnded(client)
    }

    /// The broker's process has ended: some of the bytes in the kernel still arrive.
    func brokerDied(life: Int) {
        for link in links.indices where links[link].life == life && links[link].isOpenAtBroker {
            otherEndDied(link)
        }
    }

    /// The other end of a client's connection has lost its power.
    func otherEndDied(_ link: Int) {
        links[link].isOpenAtBroker = false
        drop(link, .broker)
        truncate(link, .client)
        notice(link, by: .client, within: 1_000)
    }

    /// An end has learned that the connection has ended. False if it knew.
    func learnOfClose(_ link: Int, by end: End) -> Bool {
        switch end {
        case .client:
            guard links[link].isOpenAtClient else { return false }
            links[link].isOpenAtClient = false
            links[link].toBroker.isCut = true
        case .broker:
            guard links[link].isOpenAtBroker else { return false }
            links[link].isOpenAtBroker = false
            links[link].toClient.isCut = true
        }
        return true
    }

    // MARK: Parts

    private func pipe(_ end: End) -> WritableKeyPath<Link, Pipe> {
        end == .client ? \.toClient : \.toBroker
    }

    private func drop(_ link: Int, _ end: End) {
        let pipe = pipe(end)
        links[link][keyPath: pipe].bytes = []
        links[link][keyPath: pipe].chunks = []
        links[link][keyPath: pipe].isCut = true
    }

    /// Loses the bytes in flight from some byte on.
    private func truncate(_ link: Int, _ end: End) {
        let pipe = pipe(end)
        links[link][keyPath: pipe].isCut = true
        let count = links[link][keyPath: pipe].bytes.count
        // All of them, none, or any part: a cut between two packets is as likely as one within.
        var kept =
            switch context.networkRandom.below(3) {
            case 0: 0
            case 1: count
            default: context.networkRandom.number(in: 0...count)
            }
        links[link][keyPath: pipe].bytes.removeLast(count - kept)
        var chunks: [Int] = []
        for chunk in links[link][keyPath: pipe].chunks where kept > 0 {
            let count = min(chunk, kept)
            chunks.append(count)
            kept -= count
        }
        links[link][keyPath: pipe].chunks = chunks
    }

    /// An end learns of the close, after everything that still arrives.
    private func notice(_ link: Int, by end: End, within maximum: UInt64) {
        let delay = context.networkRandom.milliseconds(in: 0...maximum)
        let last = links[link][keyPath: pipe(end)].lastArrival
        let time = max(last, context.now.advanced(byMilliseconds: delay))
        context.eventQueue.enter(.closeNoticed(link: link, by: end), at: time)
    }

    /// Usually short, occasionally as long as this run's network allows.
    private func drawDelay() -> UInt64 {
        let maximum = context.profile.latencyMaximum
        return context.networkRandom.happens(perTenThousand: 9_000)
            ? context.networkRandom.milliseconds(in: 0...min(maximum, 10))
            : context.networkRandom.milliseconds(in: 0...maximum)
    }
}
