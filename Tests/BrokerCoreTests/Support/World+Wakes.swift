// Wake targets and what the relay is told, in the tests' world.

import BrokerTerms
import Primitives

@testable import BrokerCore

extension World {
    /// Wake-ups of the app, told to `relay/1`.
    func allowWakes(_ adjust: (inout WakePolicy) -> Void = { _ in }) {
        var policy = WakePolicy(relay: Array("relay".utf8))
        adjust(&policy)
        limits.appPolicy.wake = policy
    }

    /// Sets a target of a user; its id.
    @discardableResult
    func setTarget(
        _ user: String, device: String = "", _ kind: WakeTarget.Kind = .udp,
        _ address: String = "10.0.0.9:7000", language: String = ""
    ) -> WakeTargetResult {
        broker.setWakeTarget(
            WakeTarget(
                device: Array(device.utf8), kind: kind, address: Array(address.utf8),
                language: Array(language.utf8)),
            app: World.app, user: Array(user.utf8))
    }

    /// A request of a client about wake targets.
    func wake(_ name: String, _ make: (inout [UInt8]) -> WakeRequest) {
        var bytes = World.preceding
        let request = make(&bytes)
        step(
            .wakeRequested(
                connections[name]!, requestIdentifier: freeRequest(name), request), bytes: bytes)
    }

    /// A send with what it says about wake-ups.
    func sendWaking(
        _ name: String, _ number: UInt64, to target: Target, _ text: String, push: String,
        wakes: Bool = true, expiry: UInt64? = nil
    ) {
        var bytes = World.preceding
        var request = SendRequest(
            number: number, grade: .durable, target: target.append(to: &bytes),
            expirySeconds: expiry, payload: bytes.appendRange("\0" + text),
            messageByteCount: UInt32(text.utf8.count) + 16)
        request.isWithoutWake = !wakes
        request.push = bytes.appendRange(push)
        step(.sendReceived(connections[name]!, request), bytes: bytes)
    }

    /// A device has all that it was sent.
    func acknowledgeAll(_ name: String) {
        let (user, device) = World.split(name)
        guard let app = broker.app(named: World.app),
            let index = broker.user(named: Array(user.utf8), app: app),
            let session = broker.session(of: index, device: Name(Array(device.utf8))),
            let connected = broker.sessions[session].connected
        else { return }
        let sent = broker.live.connectedSessions[connected].sentThrough
        if sent > broker.sessions[session].inbox.acknowledgedThrough {
            acknowledge(name, through: sent)
        }
    }

    /// What the relay was told since the last call, without the numbers.
    func told() -> [String] {
        settle()
        pass(milliseconds: 0)
        settle()
        let texts: [String] = lines().compactMap { line in
            guard line.hasPrefix("relay/1: #"), let start = line.firstIndex(of: "{") else {
                return nil
            }
            return String(line[start...])
        }
        acknowledgeAll("relay/1")
        settle()
        return texts
    }

    /// The same in short: the event, the count, and the sender.
    func news() -> [String] {
        told().map { text in
            func member(_ name: String) -> String? {
                guard let range = text.firstRange(of: "\"\(name)\":") else { return nil }
                return String(text[range.upperBound...].prefix { $0 != "," && $0 != "}" })
                    .replacing("\"", with: "")
            }
            let event = member("event") == "WAKE_REQUEST" ? "wake" : "withdrawn"
            return event + " \(member("user") ?? "?")"
                + (member("target") == nil ? "" : " at one target")
                + (member("count").map { " \($0)" } ?? "")
                + (member("from").map { " from \($0)" } ?? "")
        }
    }
}
