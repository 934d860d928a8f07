// What a wake-up tells its template.

/// The values of the variables of a template.
package struct WakeVariables: Hashable, Sendable {
    package var from: String
    /// Empty for none.
    package var group: String
    /// The time of the message, in Unix milliseconds.
    package var time: UInt64
    /// Messages that wait for the user.
    package var count: UInt64
    /// The text of the message, where contents may leave; empty for none.
    package var text: String
    package var user: String
    /// Empty for any device of the user.
    package var device: String
    /// BCP 47; empty for none.
    package var language: String

    package init(
        from: String, group: String, time: UInt64, count: UInt64, text: String, user: String,
        device: String, language: String
    ) {
        self.from = from
        self.group = group
        self.time = time
        self.count = count
        self.text = text
        self.user = user
        self.device = device
        self.language = language
    }

    /// What templates are tried with: the third message of a group.
    package static let sample = WakeVariables(
        from: "alice", group: "crew", time: 1_795_687_335_120, count: 3, text: "hello",
        user: "bob", device: "phone", language: "en")
}
