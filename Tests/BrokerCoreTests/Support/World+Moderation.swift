// A moderator in the tests' world.

import BrokerTerms
import Primitives

@testable import BrokerCore

extension World {
    /// Messages of the app wait for verdicts of `censor`.
    func moderate(_ adjust: (inout ModerationPolicy) -> Void = { _ in }) {
        var policy = ModerationPolicy(moderator: Array("censor".utf8))
        adjust(&policy)
        limits.appPolicy.moderation = policy
    }

    /// The moderator logs in with a token of its own.
    func beginModerator(_ name: String = "censor/1", dialect: SessionDialect = .mrt) {
        if connections[name] == nil {
            addToken("token of \(name)", user: Self.split(name).user, rights: nil)
        }
        connect(
            name, outbox: dialect == .mrt ? (epoch: 7, seen: 0, used: 0) : nil, dialect: dialect,
            claim: { bytes in
                .token(
                    identifier: bytes.appendRange("token of \(name)"), digest: Self.tokenDigest)
            })
        settle()
        _ = lines()
    }

    /// The numbers of the questions in the transcript since it was last read, and its other lines.
    func questions() -> (numbers: [UInt64], others: [String]) {
        pass(milliseconds: 0)
        settle()
        var (numbers, others): ([UInt64], [String]) = ([], [])
        for line in lines() {
            guard line.contains("MESSAGE_QUESTION"),
                let start = line.firstRange(of: "\"number\":")?.upperBound
            else {
                others.append(line)
                continue
            }
            numbers.append(UInt64(line[start...].prefix { $0.isNumber })!)
        }
        return (numbers, others)
    }

    /// A verdict of the moderator's device on MRT.
    func decide(
        _ question: UInt64, _ verdict: String, _ text: String = "", by name: String = "censor/1"
    ) {
        send(
            name, 0, to: .topic("$verdict/\(question)/\(verdict)"), text, grade: .transient,
            isRaw: true)
    }

    /// What is told after the deadlines that are due and a commit.
    func outcome() -> [String] {
        pass(milliseconds: 0)
        settle()
        return lines()
    }
}
