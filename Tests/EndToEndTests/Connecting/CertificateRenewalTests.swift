// A certificate that is renewed by a program that does not notify the broker, such as an ACME
// client.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct CertificateRenewalTests {
        @Test func `a renewed certificate is detected without a signal, and connections stay open`()
            async throws
        {
            let broker = try await TestBroker()
            let other = try await TestBroker()
            let alice = try await broker.client("alice")
            // Another authority's pair takes the place of this one, one file after the other: until
            // both are there, the old pair serves.
            for name in ["server.pem", "server-key.pem"] {
                // With the mode of the original: others may not read a key.
                let renewed = "\(broker.directory)/certificates/\(name)"
                try FileManager.default.copyItem(
                    atPath: "\(other.directory)/certificates/\(name)", toPath: renewed + ".new")
                guard rename(renewed + ".new", renewed) == 0 else {
                    throw TestFailure("rename: \(errno)")
                }
            }
            _ = try await broker.process.line(with: "event=configuration_reloaded", "files=")
            var settings = try broker.settings("bob")
            settings.trust = .authorityFile(other.authority)
            let bob = try await connected(Client(settings))
            try await alice.send(OutgoingMessage(to: .user("bob"), text: "over the old one"))
            #expect(try await bob.nextMessage().text == "over the old one")
            #expect(try broker.counter("sockets/closed") == 0)
            #expect(try broker.counter("tls/certificate/days") > 0)
        }
    }
}
