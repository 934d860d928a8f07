// The interface of a run to its clients, for both protocols.

import Primitives
import WireFormat

protocol NetworkedClient: AnyObject {
    var index: Int { get }
    var habits: ClientHabits { get }
    /// Its connection, as it knows it.
    var link: Int? { get }
    /// Its session in the oracle, from its last CONNACK.
    var session: Int? { get }
    /// Whether its login is accepted.
    var isConnected: Bool { get }
    /// Whether all its requests are answered.
    var isAtRest: Bool { get }

    // Power.
    func powerOn()
    func powerOff()

    // Events of the network, and time.
    func linkOpened(_ opened: Int, isAccepted: Bool)
    func linkClosed(_ closed: Int)
    func received(_ bytes: [UInt8])
    func timePassed()

    // Commands of applications.
    /// Connects, and stays connected.
    func start()
    /// Disconnects normally, and reconnects later.
    func leave()
    func send(_ order: Order)
    /// Subscribes to a filter, or unsubscribes.
    func subscribe(_ filter: Int, _ grade: MRT.Grade)
    func unsubscribe(_ filter: Int)
    /// Executes the consequences of the last call.
    func runOn()
}
