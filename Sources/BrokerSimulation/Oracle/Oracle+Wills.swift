// Wills: in the model each is a message that the broker sends. It must be sent once, only for a
// device that was lost for at least its delay, and always for one that was lost for much longer.

import BrokerTerms
import Primitives
import WireFormat

/// A will, from its request to its end.
struct WillFact {
    let device: Int
    let delaySeconds: UInt32
    var isConfirmed = false
    /// A request that may end it was made.
    var isUncertain = false
    /// It was replaced or removed, and that was confirmed.
    var isOver = false
    /// Its device has been disconnected for so long that it may have been sent.
    var mayBeSent = false
    /// Since when its device is disconnected.
    var lostSince: Instant?
}

extension Oracle {
    /// Delays and stalls of bytes that were written before a loss, and of what follows it.
    private static let slackSeconds: UInt64 = 120
    /// The longest silence of a lost connection, and the grace after a restart.
    private static let graceSeconds: UInt64 = 600

    // MARK: Requests

    /// A client requests a will. Returns the name of its message.
    func willAsked(
        _ client: Int, to receivers: Receivers, delaySeconds: UInt32, grade: MRT.Grade = .once
    ) -> Int {
        let device = profile.clients[client].device
        doubtWills(of: device)
        var send = SendFact(
            client: client, receivers: receivers, grade: grade, expirySeconds: 0,
            messageIdentifier: "", issuedAt: now, session: nil, wasReachable: true,
            deathsBefore: deaths, fullTimesBefore: fullTimes)
        send.isWill = true
        sends.append(send)
        let message = sends.count - 1
        wills[message] = WillFact(device: device, delaySeconds: delaySeconds)
        // A rival may have opened its connection before, and takes this one over with its CONNECT.
        if isShared(device) { wills[message]?.mayBeSent = true }
        history.note(
            .message(message),
            "client \(client) wants it as its will to \(receivers), delay \(delaySeconds) s")
        return message
    }

    /// A client has asked to remove its will, or disconnects normally.
    func doubtWills(of device: Int) {
        forEachWill(of: device) { $0.isUncertain = true }
    }

    /// The client had no memory for the request, which was never sent.
    func willWithdrawn(_ message: Int) { wills[message] = nil }

    func willAnswered(_ message: Int, _ reason: ReasonCode, client: Int) {
        history.note(.message(message), "will answered \(reason.name)")
        if reason == .quotaExceeded {
            // It is as uncertain as the one before it.
            return
        }
        // The one before it remains.
        if reason == .notAuthorized, isForbidden(sends[message]) { return }
        guard !reason.isFailure, let device = wills[message]?.device else {
            fail(.everySendIsAnswered, "a will is refused: \(reason.name)", client: client)
            return
        }
        for other in wills.keys where other < message && wills[other]?.device == device {
            wills[other]?.isOver = true
        }
        wills[message]?.isConfirmed = true
    }

    /// The broker has confirmed that a client has no will. A requested one that was not answered is
    /// requested again.
    func willsAreOver(of device: Int) {
        forEachWill(of: device) {
            guard $0.isConfirmed else { return }
            $0.isOver = true
            $0.lostSince = nil
        }
    }

    // MARK: Loss and return

    /// A device has lost its connection, at the earliest possible time. Its unanswered requests are
    /// repeated, and each may cause a will to be sent.
    func willsLose(_ device: Int) {
        for (message, will) in wills where will.device == device && !will.isOver {
            wills[message]?.lostSince = will.lostSince ?? now
            if !will.isConfirmed { sends[message].forgetfulness += 1 }
        }
    }

    /// An event that sends wills without a loss, or after which that is unknown.
    func willsMayBeSent(of device: Int) { forEachWill(of: device) { $0.mayBeSent = true } }

    /// A device has reconnected.
    ///
    /// - Parameter isCertain: whether it is in its previous session, on an open connection.
    func willsReturn(_ device: Int, hasWill: Bool?, isCertain: Bool, session: Int?) {
        let isCertain = isCertain && devices[device].attempts <= 1 && !isShared(device)
        for (message, will) in wills.sorted(by: { $0.key < $1.key })
        where will.device == device && !will.isOver {
            let mayBeSent = will.mayBeSent || !isCertain || maySend(will)
            wills[message]?.mayBeSent = mayBeSent
            if isCertain, will.isConfirmed, !will.isUncertain {
                if let lost = will.lostSince, mustHaveSent(will, lost) {
                    mustBeThere(message, lostAt: lost, session: session)
                } else if hasWill == false, !mayBeSent {
                    fail(.confirmedIsDone, "the will is gone", message: message)
                }
            }
            wills[message]?.lostSince = nil
            if hasWill == false, will.isConfirmed { wills[message]?.isOver = true }
        }
    }

    /// Whether the device has been disconnected for the delay, or its session has ended.
    private func maySend(_ will: WillFact) -> Bool {
        guard let lost = will.lostSince else { return false }
        let seconds = min(will.delaySeconds, devices[will.device].expirySeconds)
        return now >= lost.advanced(bySeconds: UInt64(seconds))
    }

    func mustHaveSent(_ will: WillFact, _ lost: Instant) -> Bool {
        let seconds = UInt64(will.delaySeconds) + Oracle.graceSeconds + Oracle.slackSeconds
        let begin = max(lost, brokerUpSince, lastFull)
        return now >= begin.advanced(bySeconds: seconds) && !isStoreFull
            && !profile.hasSmallQueues
    }

    /// From here on the will is an acknowledged send like others.
    func mustBeThere(_ message: Int, lostAt lost: Instant, session: Int?) {
        guard sends[message].outcome == nil else { return }
        history.note(.message(message), "must have been sent by now")
        sends[message].issuedAt = lost
        sends[message].session = session
        sends[message].outcome = SendFact.Outcome(
            reason: .sent, refusedCount: 0, refusedIndices: [], at: now, deathsBefore: deaths,
            mayHaveLackedRoom: mayHaveLackedRoom(sends[message]))
    }

    // MARK: Received

    /// A client has received a will.
    func willReceived(_ message: Int, client: Int) {
        guard let will = wills[message] else { return }
        if will.mayBeSent || maySend(will) {
            wills[message]?.mayBeSent = true
        } else {
            fail(
                .willsAreForTheLost, "sent, though its device was not away for its delay",
                message: message, client: client)
        }
    }

    private func forEachWill(of device: Int, _ body: (inout WillFact) -> Void) {
        for (message, known) in wills where known.device == device && !known.isOver {
            var will = known
            body(&will)
            wills[message] = will
        }
    }
}
