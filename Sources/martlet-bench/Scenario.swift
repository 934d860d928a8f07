// What can be measured, by the names of the subcommands.

/// What is measured.
enum Scenario: String, CaseIterable {
    /// Every message goes to all receivers.
    case fanOut = "fanout"
    /// Pairs of one publisher and one receiver.
    case unicast
    /// Many publishers, one receiver.
    case fanIn = "fanin"
    /// One message to every session of the app.
    case broadcast
    /// Messages to a group, which the run creates and its receivers join.
    case group
    /// Connections that do nothing: connects per second, memory of each.
    case connect
    /// Messages for sessions that are away (enqueue), then their return (drain).
    case offline
    /// Sessions that are cut all at once: their wills.
    case will
    /// Clients that connect, subscribe, publish, receive, vanish, and come again.
    case churn
    /// A fleet that wakes, drains and sleeps.
    case sleepy
    /// The fan-out, with one receiver in a hundred that does not read.
    case slow
    /// The fan-out without a broker: the same bytes to the same sockets by the least code.
    case floor

    /// emqtt_bench's word for a subcommand that does the same.
    static func named(_ word: String) -> Scenario? {
        word == "conn" ? .connect : Scenario(rawValue: word)
    }

    /// Clients come and go during the load.
    var reconnects: Bool { self == .churn || self == .sleepy }
}
