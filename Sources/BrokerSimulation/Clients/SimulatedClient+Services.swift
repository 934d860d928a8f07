// What a device says to the services of its app, and hears of them: targets of wake-ups, and what
// became of messages on which a moderator decides.

import ClientCore
import Primitives
import WireFormat

extension SimulatedClient {
    // MARK: Wake-ups

    /// Sets a target of its user.
    ///
    /// - Parameter isOwn: whether it wakes this device; otherwise any of the user.
    func setTarget(kind: UInt8, isOwn: Bool) {
        guard isConnected, requests.count < 8 else { return }
        let device = Array((isOwn ? context.profile.deviceName(of: habits) : "").utf8)
        let address = Array(SimulatedClient.address(of: kind, user: habits.user).utf8)
        let part = MRT.WakeTarget(
            device: ByteRange(offset: 0, count: device.count), kind: kind, environment: 0,
            language: .empty, address: ByteRange(offset: device.count, count: address.count))
        guard let identifier = request(.setWakeTarget, part, from: device + address) else { return }
        requests[identifier] = .wakeTarget(kind: kind, isOwn: isOwn)
    }

    private static func address(of kind: UInt8, user: Int) -> String {
        switch kind {
        case 1: "https://wake.example/\(user)"
        case 2: String(repeating: "a\(user % 10)", count: 32)
        case 3: "registration-\(user)"
        case 4: "+4930000000\(user % 10)"
        case 5: "wake/\(user)"
        default: "10.0.0.\(user % 200 + 1):4000"
        }
    }

    func removeTarget(_ target: UInt64) {
        guard isConnected, requests.count < 8 else { return }
        let part = MRT.WakeTargetName(identifier: target)
        guard let identifier = request(.removeWakeTarget, part, from: []) else { return }
        oracle.removingTarget(target)
        requests[identifier] = .wakeRemoval(target)
    }

    /// Logs out: its session ends, and its targets are silent.
    func logOut() {
        guard isConnected else { return }
        oracle.sessionMayEnd(index)
        leave(sessionExpirySeconds: 0)
    }

    /// Takes the id of a target that it has set.
    func targetSet(_ response: MRT.Response, kind: UInt8, isOwn: Bool) {
        guard !response.reason.isFailure else { return checkRefusal(response.reason) }
        let content = Array(
            bytes(through: response.content.endOffset)[Int(response.content.offset)...])
        guard let target = try? MRT.WakeTargetIdentifier(content.span.bytes) else {
            return oracle.fail(.wakesAreAsked, "an id that cannot be read", client: index)
        }
        oracle.targetSet(
            target.identifier, kind: kind, client: index, isOwn: isOwn, isLoggingOut: isLoggingOut)
    }

    // MARK: Moderation

    /// Reads what the broker tells of a verdict on a message of this client.
    func readVerdict(_ event: EventText) {
        guard let number = event.number("number"), let message = messages[UInt64(number)],
            let code = event.number("code")
        else { return }
        oracle.verdictTold(message, code: code, client: index)
    }
}
