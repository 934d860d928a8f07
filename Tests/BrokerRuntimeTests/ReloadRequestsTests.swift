// Asking the main thread for a reload.

import Glibc
import Threads
import Testing

@testable import BrokerRuntime

@Suite("A request for a reload")
struct ReloadRequestsTests {
    private let requests = ReloadRequests()

    @Test func `has no answer where nobody reloads`() {
        #expect(requests.ask() == nil)
        requests.open()
        requests.close()
        #expect(requests.ask() == nil)
    }

    @Test func `an outcome for which nobody asked is not kept`() {
        requests.open()
        requests.finish(.refused("x"))
        #expect(!requests.isAsked)
    }
}
