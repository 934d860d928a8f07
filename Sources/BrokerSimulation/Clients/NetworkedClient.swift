// What a run needs of a client, whichever protocol it speaks.

import Primitives
import WireFormat

protocol NetworkedClient: AnyObject {
    var index: Int { get }
    var habits: ClientHabits { get }
    /// Its connection, as it knows it.
    var link: Int? { get }
    /// Its session, in the oracle, from its last CONNACK.
    var session: Int? { get }
    /// Whether it is let in.
    var isConnected: Bool { get }
    /// Whether nothing it asked for is open.
    var isAtRest: Bool { get }

    // Power.
    func powerOn()
    func powerOff()

    // What the network tells it, and the time.
    func linkOpened(_ opened: Int, isAccepted: Bool)
    func linkClosed(_ closed: Int)
    func received(_ bytes: [UInt8])
    func timePassed()

    // What people want of it.
    /// Connects, and stays connected.
    func start()
    /// Disconnects normally, and comes back after a while.
    func leave()
    func send(_ order: Order)
    /// Wants to be subscribed to a filter, or no longer.
    func subscribe(_ filter: Int, _ grade: MRT.Grade)
    func unsubscribe(_ filter: Int)
    /// Does what follows from the last call.
    func runOn()
}
