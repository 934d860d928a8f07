// What a connected session consists of in memory: sizes that documents tell of.
import Testing

@testable import BrokerCore

@Suite struct `Records of a session` {
    @Test func `have no room for what is not there`() {
        #expect(MemoryLayout<Session>.stride == 224)
        #expect(MemoryLayout<User>.stride == 72)
        #expect(MemoryLayout<BrokerCore.ConnectedSession>.stride == 152)
        #expect(MemoryLayout<Access>.stride == 48)
    }
}
