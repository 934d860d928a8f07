// Signatures against the published vector of Standard Webhooks, and ids.

import Testing

@testable import Relay
@testable import Webhooks

@Suite struct SignatureTests {
    /// The vector of the specification and its libraries.
    @Test func `the published vector has its signature`() throws {
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let signature = secret.signature(
            identifier: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330,
            body: Array(#"{"test": 2432232314}"#.utf8))
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test(arguments: [
        "", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_MfKQ", "whsec_****",
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ])
    func `a text of another form is no secret`(_ text: String) {
        #expect(WebhookSecret(text) == nil)
    }

    @Test func `an id follows from user, epoch and number`() {
        let identifier = EventIdentifier.of(user: "relay", epoch: 7, number: 1)
        #expect(identifier == EventIdentifier.of(user: "relay", epoch: 7, number: 1))
        #expect(identifier.hasPrefix("msg_") && identifier.utf8.count == 36)
        let others = [
            EventIdentifier.of(user: "relay", epoch: 7, number: 2),
            EventIdentifier.of(user: "relay", epoch: 8, number: 1),
            EventIdentifier.of(user: "relax", epoch: 7, number: 1),
            EventIdentifier.ofTransient(run: 7, count: 1),
        ]
        #expect(Set(others + [identifier]).count == 5)
    }

    @Test func `a batch of one has the id of its event`() {
        #expect(EventIdentifier.ofBatch(["msg_a"]) == "msg_a")
        #expect(EventIdentifier.ofBatch(["msg_a", "msg_b"]) != "msg_a")
        #expect(
            EventIdentifier.ofBatch(["msg_a", "msg_b"])
                == EventIdentifier.ofBatch(["msg_a", "msg_b"]))
    }
}
