// Tokens of identity providers over MQTT: key sets in a file, as Keycloak and Auth0 publish them,
// and tokens in their shapes. The openssl program makes the keys and the signatures.

import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct IssuerTests {
        private static let keycloak = "https://login.example.com/realms/plant"
        private static let auth0 = "https://plant.eu.auth0.example/"

        private let identities: Identities

        init() throws { identities = try Identities() }

        private func broker() async throws -> TestBroker {
            let issuers = [
                #"{issuer:"\#(Self.keycloak)",audience:"martlet",app:"demo","#
                    + #"file:"\#(identities.file("keycloak.json"))",user:"${preferred_username}","#
                    + #"rights:["subscribe:plant/${azp}/#","!subscribe:plant/${azp}/secret/#","#
                    + #""${resource_access.martlet.roles}"]}"#,
                #"{issuer:"\#(Self.auth0)",audience:"https://martlet.example",app:"demo","#
                    + #"file:"\#(identities.file("auth0.json"))","#
                    + #"user:"${https://plant.example/user}","#
                    + #"rights:["${permissions}"]}"#,
            ]
            return try await TestBroker("jwt.issuers=[\(issuers.joined(separator: ","))]")
        }

        private static var later: Int { Int(Date().timeIntervalSince1970) + 600 }

        /// Claims of Keycloak's access token for a client.
        private static func keycloakClaims(_ user: String, expiry: Int = later) -> String {
            #"{"exp":\#(expiry),"iat":\#(expiry - 600),"jti":"a-1","iss":"\#(keycloak)","#
                + #""aud":["martlet","account"],"sub":"0b1c-77","typ":"Bearer","azp":"console","#
                + #""realm_access":{"roles":["operator","offline_access"]},"#
                + #""resource_access":{"martlet":{"roles":["publish:in/#"]}},"#
                + #""scope":"profile email","preferred_username":"\#(user)"}"#
        }

        /// Claims of Auth0's access token for an API.
        private static func auth0Claims(_ user: String) -> String {
            #"{"iss":"\#(auth0)","sub":"auth0|5f7c8ec7c33c6c004bbafe82","#
                + #""aud":["https://martlet.example","\#(auth0)userinfo"],"#
                + #""iat":\#(later - 600),"exp":\#(later),"scope":"openid","#
                + #""permissions":["publish:plant/#"],"https://plant.example/user":"\#(user)"}"#
        }

        /// Replaces a key set, as a job that fetches it does.
        private func publish(_ keys: [String], as name: String) throws {
            try replace(name, with: #"{"keys":[\#(keys.joined(separator: ","))]}"#)
        }

        private func replace(_ name: String, with text: String) throws {
            try identities.write(Array(text.utf8), to: "\(name).new")
            guard rename(identities.file("\(name).new"), identities.file(name)) == 0 else {
                throw TestFailure("rename of \(name)")
            }
        }

        /// Whether a client of Mosquitto's is let in with a token as its password, and publishes.
        private func publishes(
            _ token: String, topic: String, _ broker: TestBroker
        ) async throws -> Bool {
            let client = try ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-h", "localhost", "-p", "\(broker.tlsPort)", "--cafile", broker.authority,
                    "-V", "5", "-q", "1", "-u", "ignored", "-P", token, "-t", topic, "-m", "x",
                ])
            let exit = try await client.exit()
            return exit == .code(0) && !client.text.contains("not authorized")
                && !client.text.contains("Not authorized")
        }

        @Test func `in the shapes of Keycloak and Auth0 log in by MQTT with their rights`()
            async throws
        {
            try await identities.makeKey("r1", "RS256")
            try await identities.makeKey("e1", "ES256")
            try publish(
                [
                    await identities.webKey("r1", "RS256"),
                    // Keycloak's set has a key for encryption too.
                    #"{"kid":"enc","kty":"RSA","use":"enc","alg":"RSA-OAEP","n":"AQ","e":"AQ"}"#,
                ], as: "keycloak.json")
            try publish([await identities.webKey("e1", "ES256")], as: "auth0.json")
            let broker = try await broker()
            let alice = try await identities.token(
                "r1", claims: Self.keycloakClaims("alice"), algorithm: "RS256")
            #expect(try await publishes(alice, topic: "in/x", broker))
            #expect(try await !publishes(alice, topic: "plant/x", broker))
            _ = try await broker.process.line(with: "event=client_connected", "user=alice")
            let bob = try await identities.token(
                "e1", claims: Self.auth0Claims("bob"), algorithm: "ES256")
            #expect(try await publishes(bob, topic: "plant/x", broker))
            #expect(try await !publishes(bob, topic: "in/x", broker))
            _ = try await broker.process.line(with: "event=client_connected", "user=bob")
            // The key of one provider vouches for no token of the other.
            let forged = try await identities.token(
                "e1", claims: Self.keycloakClaims("mallory"), algorithm: "ES256")
            #expect(try await !publishes(forged, topic: "in/x", broker))
            let other = try await identities.token(
                "r1",
                claims: Self.keycloakClaims("mallory").replacing("\"martlet\",", with: ""),
                algorithm: "RS256")
            #expect(try await !publishes(other, topic: "in/x", broker), "another audience")
            let old = try await identities.token(
                "r1", claims: Self.keycloakClaims("mallory", expiry: 1_000_000_000),
                algorithm: "RS256")
            #expect(try await !publishes(old, topic: "in/x", broker), "over")
            let sub = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-h", "localhost", "-p",
                    "\(broker.tlsPort)", "--cafile", broker.authority, "-V", "5", "-d", "-u",
                    "ignored", "-P", alice, "-t", "plant/console/open", "-t", "plant/console/#",
                    "-t", "other",
                ])
            _ = try await sub.line(with: "Subscribed (mid: 1): 0, 135, 135")
            sub.signal(SIGKILL)
        }

        @Test func `a key set is rotated without a restart, and garbage leaves the old one`()
            async throws
        {
            for name in ["r1", "r2"] { try await identities.makeKey(name, "RS256") }
            let keys = [
                try await identities.webKey("r1", "RS256"),
                try await identities.webKey("r2", "RS256"),
            ]
            try publish([keys[0]], as: "keycloak.json")
            try publish([keys[0]], as: "auth0.json")
            let broker = try await broker()
            var tokens: [String] = []
            for name in ["r1", "r2"] {
                tokens.append(
                    try await identities.token(
                        name, claims: Self.keycloakClaims("alice"), algorithm: "RS256"))
            }
            #expect(try await publishes(tokens[0], topic: "in/x", broker))
            #expect(try await !publishes(tokens[1], topic: "in/x", broker))
            // Garbage, as of a proxy that answers with a page: the old keys remain, and it is told.
            try replace("keycloak.json", with: "<html>502 Bad Gateway</html>")
            let complaint = try await broker.process.line(with: "event=configuration_refused")
            #expect(complaint.contains("keycloak.json"))
            #expect(try await publishes(tokens[0], topic: "in/x", broker))
            // Both keys, and then the new one alone. Connections of the old key end with it.
            try publish(keys, as: "keycloak.json")
            _ = try await broker.process.line(with: "event=configuration_reloaded")
            #expect(try await publishes(tokens[0], topic: "in/x", broker))
            #expect(try await publishes(tokens[1], topic: "in/x", broker))
            let sub = try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_sub", "-h", "localhost", "-p",
                    "\(broker.tlsPort)", "--cafile", broker.authority, "-V", "5", "-d", "-u",
                    "ignored", "-P", tokens[0], "-t", "plant/console/open",
                ])
            _ = try await sub.line(with: "Subscribed")
            try publish([keys[1]], as: "keycloak.json")
            _ = try await broker.process.line(
                with: "event=client_disconnected", "user=alice", "reason=not-authorized")
            #expect(try await !publishes(tokens[0], topic: "in/x", broker))
            #expect(try await publishes(tokens[1], topic: "in/x", broker))
            sub.signal(SIGKILL)
        }
    }
}

extension Identities {
    /// The public half of a key as a JSON Web Key, from what the openssl program prints.
    fileprivate func webKey(_ name: String, _ algorithm: String) async throws -> String {
        func encoded(_ hexadecimal: String) -> String {
            let digits = Array(hexadecimal.utf8)
            let bytes = stride(from: 0, to: digits.count, by: 2).map {
                UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
            }
            return Data(bytes).base64EncodedString().replacing("+", with: "-")
                .replacing("/", with: "_").replacing("=", with: "")
        }
        if algorithm == "RS256" {
            try await openssl("rsa -in \(name).key -noout -modulus -out \(name).modulus")
            let line = String(decoding: try read("\(name).modulus"), as: UTF8.self)
            let modulus = line.dropFirst("Modulus=".count).filter(\.isHexDigit)
            return #"{"kid":"\#(name)","kty":"RSA","alg":"RS256","use":"sig","n":"#
                + #""\#(encoded(String(modulus)))","e":"AQAB"}"#
        }
        // The last 64 bytes of the DER of an elliptic key are the point.
        try await openssl("pkey -in \(name).key -pubout -outform DER -out \(name).der")
        let point = try read("\(name).der").suffix(64).map { String(format: "%02x", $0) }
        let (x, y) = (point.prefix(32).joined(), point.suffix(32).joined())
        return #"{"kid":"\#(name)","kty":"EC","crv":"P-256","alg":"ES256","use":"sig","x":"#
            + #""\#(encoded(x))","y":"\#(encoded(y))"}"#
    }
}
