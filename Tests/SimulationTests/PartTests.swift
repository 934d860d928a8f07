// Parts of the simulation: its random numbers, its event queue, and the oracle's matching of
// filters.

import Primitives
import Testing

@testable import BrokerSimulation

@Suite struct `A part of the simulation` {
    @Test func `draws the same numbers everywhere`() {
        // The first values of SplitMix64 for seed 0, as its authors give them.
        var random = SimulationRandom(seed: 0)
        #expect(random.next() == 0xE220_A839_7B1D_CDAF)
        #expect(random.next() == 0x6E78_9E6A_A1B9_65F4)
        var counts = [0, 0, 0]
        for _ in 0..<3_000 { counts[random.index(weights: [1, 0, 2])] += 1 }
        #expect(counts[0] > 800 && counts[1] == 0 && counts[2] > 1_700)
    }

    @Test func `takes occurrences in the order of time, then of entry`() {
        var queue = EventQueue()
        let times: [UInt64] = [5, 1, 3, 1, 9, 3, 0, 5]
        for (index, time) in times.enumerated() {
            queue.enter(.clientDue(client: index), at: Instant(milliseconds: time))
        }
        var clients: [Int] = []
        while let next = queue.takeNext() {
            if case .clientDue(let client) = next.occurrence { clients.append(client) }
        }
        #expect(clients == [6, 1, 3, 2, 5, 0, 7, 4])
    }

    @Test(arguments: [
        ("a", "a", true), ("a/b", "a/+", true), ("a", "a/#", true), ("a/b/c", "a/#", true),
        ("a/b", "#", true), ("a", "+", true), ("a/b", "+", false), ("a", "a/+", false),
        ("a/b", "a", false), ("b/c/d", "b/+/d", true), ("b/c", "b/+/d", false),
        ("a/b", "+/c", false),
    ])
    func `matches filters`(topic: String, filter: String, isMatch: Bool) {
        #expect(Oracle.matches(topic: topic, filter: filter) == isMatch)
    }

    @Test(
        arguments: [
            ("17;...", 17, nil),
            (#"{"msg":{"t":"0","b":"17;.."},"from":"user1","time":"1"}"#, 17, "user1"),
            (#"{"msg":{"t":"0","b":"x"},"from":"user1","time":"1"}"#, nil, "user1"),
            ("{", nil, nil),
            ("17;.x", nil, nil),
        ] as [(String, Int?, String?)])
    func `reads the messages for an MQTT client`(payload: String, message: Int?, from: String?) {
        let read = Array(payload.utf8).withUnsafeBytes { MessageText.message(inPublication: $0) }
        #expect(read.message == message)
        #expect(read.from == from)
    }

    @Test func `reads what the broker tells a relay and a moderator`() {
        let request = EventText(
            Array(
                (#"{"event":"WAKE_REQUEST","user":"user1","targets":[{"id":7,"kind":"apns","#
                    + #""address":"a"},{"id":12,"kind":"udp","address":"b:1"}],"time":175,"#
                    + #""count":2,"expires":300,"templates":{"apns":{"v":3}},"from":"user2","#
                    + #""t":0,"b":"17;.."}"#)
                    .utf8))
        #expect(request.text("event") == "WAKE_REQUEST")
        #expect(request.targets == [7, 12])
        #expect(request.number("time") == 175)
        #expect(request.template("apns") == 3 && request.template("fcm") == 0)
        #expect(request.has(kind: "udp") && !request.has(kind: "fcm"))
        #expect(request.message == 17)
        let refusal = EventText(Array(#"{"event":"MESSAGE_REFUSED","number":4,"code":-9}"#.utf8))
        #expect(refusal.number("code") == -9)
        #expect(refusal.message == nil && refusal.targets.isEmpty)
    }

    @Test func `assigns the lowest free channel to a gateway's devices`() {
        var gatewayChannels = GatewayChannels()
        for link in 10...12 {
            let channel = gatewayChannels.freeChannel
            gatewayChannels.links[channel] = link
            gatewayChannels.channels[link] = channel
        }
        #expect(gatewayChannels.freeChannel == 3)
        #expect(gatewayChannels.remove(11) == 1)
        gatewayChannels.ending = [1]
        #expect(gatewayChannels.freeChannel == 3)
        gatewayChannels.ending = []
        #expect(gatewayChannels.freeChannel == 1)
        #expect(gatewayChannels.remove(11) == nil)
    }

    @Test func `reads a stream of packets in any pieces`() {
        let stream: [UInt8] = [0xC0, 0, 0x61, 2, 0xCE, 0x0D, 0xC0, 0]
        for cut in 0...stream.count {
            var tap = WireTap()
            var types: [UInt8] = []
            for part in [stream[..<cut], stream[cut...]] {
                #expect(tap.take(Array(part)) { frame, _ in types.append(frame.type) })
            }
            #expect(types == [12, 6, 12])
        }
    }
}
