// What an event loop answers requests of web listeners with. The server makes each part once and
// gives it to the loops, the administration thread and the main thread.

/// The parts that all threads share which have to do with web listeners.
package struct WebServices: Sendable {
    let listeners: WebListeners
    let health: BrokerHealth
    let metrics: MetricsPage
    let requests: APIQueue
    let operators: Operators
    let interfaces: SourceServices

    /// Without a web listener.
    package init() {
        self.init(WebListeners(), operators: Operators(), interfaces: SourceServices())
    }

    init(_ listeners: WebListeners, operators: Operators, interfaces: SourceServices) {
        self.interfaces = interfaces
        self.listeners = listeners
        self.operators = operators
        health = BrokerHealth()
        metrics = MetricsPage()
        requests = APIQueue()
    }
}
