// The memory layout that determines the speed of a fan-out.
import Testing

@testable import NetTransport

@Suite struct ConnectionSlotTests {
    @Test func `the hot record of a connection is one cache line`() {
        #expect(MemoryLayout<ConnectionSlot>.stride == 64)
    }

    @Test func `frames cost the connections that speak in them 24 bytes`() {
        #expect(MemoryLayout<FrameState>.stride == 24)
    }

    @Test func `the cold record of a connection has no gaps`() {
        #expect(MemoryLayout<ConnectionDetails>.stride == 72)
    }
}
