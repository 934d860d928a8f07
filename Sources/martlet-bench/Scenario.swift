// The scenarios, by the names of the subcommands.

/// A kind of measurement.
enum Scenario: String, CaseIterable {
    /// Every message goes to all receivers.
    case fanOut = "fanout"
    /// Pairs of one publisher and one receiver.
    case unicast
    /// Many publishers, one receiver.
    case fanIn = "fanin"
    /// One message to every session of the app.
    case broadcast
    /// Messages to a group that the run creates and its receivers join.
    case group
    /// Idle connections: connects per second, memory of each.
    case connect
    /// Messages for disconnected sessions (enqueue), then their return (drain).
    case offline
    /// Sessions that are cut at the same time: their wills.
    case will
    /// Clients that connect, subscribe, publish, receive, are cut, and return.
    case churn
    /// Devices that wake, drain their queue and sleep.
    case sleepy
    /// The fan-out, with one receiver in a hundred that does not read.
    case slow
    /// The fan-out without a broker: the same bytes to the same sockets by minimal code.
    case floor

    /// emqtt_bench's name for the same subcommand.
    static func named(_ word: String) -> Scenario? {
        word == "conn" ? .connect : Scenario(rawValue: word)
    }

    /// Whether clients disconnect and return during the load.
    var reconnects: Bool { self == .churn || self == .sleepy }
}
