// What a login grants: the window, the session, and the size of packets.

import MartletClient
import Primitives
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct LoginTests {
    private func connectedLines(_ relay: inout ModelRelay, _ terms: ConnectionTerms) -> [String] {
        relay.dispatcher.connected(terms, now: relay.now.instant)
        return relay.dispatcher.takeLines()
    }

    @Test func `half of the window that the broker grants is written, not of what was asked for`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.dispatcher.connected(Fixture.terms(inboxWindow: 8), now: relay.now.instant)
        for number in 1...3 { relay.accept(Fixture.message("", number: UInt64(number))) }
        relay.save()
        #expect(relay.acknowledged == nil)
        relay.accept(Fixture.message("", number: 4))
        relay.save()
        #expect(relay.acknowledged?.number == 4)
        #expect(relay.content.deliveries.count == 4)
    }

    @Test func `long events are written before the broker stops for their bytes`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        let text = String(repeating: "x", count: WebhookLimits.recordByteCount / 4)
        for number in 1...3 { relay.accept(Fixture.message(text, number: UInt64(number))) }
        relay.save()
        #expect(relay.acknowledged == nil)
        relay.accept(Fixture.message(text, number: 4))
        relay.save()
        #expect(relay.acknowledged?.number == 4)
        // What is delivered counts no more.
        relay.accept(Fixture.message(text, from: "bob", number: 5))
        relay.begin()
        relay.finish(200, at: 1)
        for number in 6...8 {
            relay.accept(Fixture.message(text, from: "eve", number: UInt64(number)))
        }
        relay.save()
        #expect(relay.acknowledged?.number == 5)
    }

    @Test func `a session that the broker had is not called new for want of a position`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        #expect(
            connectedLines(&relay, Fixture.terms(isNewInbox: true))[0].hasSuffix("session=present"))
        #expect(
            connectedLines(&relay, Fixture.terms(isSessionPresent: false, isNewInbox: true))[0]
                .hasSuffix("session=new"))
        // One that another relay has begun is not the session of this record.
        relay.accept(Fixture.message("1", number: 1))
        #expect(connectedLines(&relay, Fixture.terms(isNewInbox: true))[0].hasSuffix("session=new"))
    }

    @Test func `a broker whose messages may be larger than packets of the relay is told of`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        #expect(connectedLines(&relay, Fixture.terms()).count == 1)
        #expect(
            connectedLines(&relay, Fixture.terms(payloadMaximum: 3_000_000)).last
                == "event=packets_too_large broker_maximum=3000000 packet_maximum=1048576")
    }

    @Test func `subscriptions of an earlier run stay in the record until they are ended`() {
        var content = RecordContent()
        content.apply(.filters(["old/#", "kept/#"]))
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]), content: content)
        #expect(relay.dispatcher.replaceFilters(["kept/#"]) == ["old/#"])
        relay.save()
        #expect(relay.dispatcher.snapshot == [.filters(["kept/#", "old/#"])])
        #expect(relay.dispatcher.emptyRecord == [.filters(["kept/#", "old/#"])])
        // A start without a broker changes nothing.
        var next = ModelRelay(Fixture.settings([Fixture.hook()]), content: relay.content)
        #expect(next.dispatcher.replaceFilters(["kept/#"]) == ["old/#"])
        #expect(!next.dispatcher.hasUnwritten)
        next.dispatcher.forgetObsoleteFilters()
        next.save()
        #expect(next.dispatcher.snapshot == [.filters(["kept/#"])])
        #expect(next.content.filters == ["kept/#"] || next.unsynced == [.filters(["kept/#"])])
    }
}
