// Wake targets: set, listed, removed and tested by operators and by the holders of keys and tokens.

import Administration
import BrokerCore
import BrokerTerms
import Primitives

extension AdministrationService {
    func set(_ request: SetWakeTarget) throws(AdministrationRefusal) -> SetWakeTarget.Reply {
        try checkUser(request.user, ofApp: request.app)
        let (app, user) = (Array(request.app.utf8), Array(request.user.utf8))
        let target = WakeTarget(request)
        let result = changeAndCommit { state in
            state.broker.setWakeTarget(target, app: app, user: user)
        }
        guard result.reason == .success else {
            let message =
                switch result.limit {
                case .wakesOff: "apps.\(request.app).wake is not set"
                case .none: "refused: \(result.reason.name)"
                case let cause: String(decoding: cause.text, as: UTF8.self)
                }
            let cause: AdministrationRefusal.Cause? =
                switch result.limit {
                case .store, .diskSpace: .full
                case .wakesOff: .forbidden
                default: nil
                }
            throw AdministrationRefusal(result.reason, message, cause: cause)
        }
        report("wake.set", app: request.app, user: request.user, id: result.identifier)
        return SetWakeTarget.Reply(id: result.identifier)
    }

    func list(_ request: ListWakeTargets) throws(AdministrationRefusal) -> ListWakeTargets.Reply {
        try checkUser(request.user, ofApp: request.app)
        let targets = shared.enter {
            $0.broker.wakeTargets(app: Array(request.app.utf8), user: Array(request.user.utf8))
        }
        return ListWakeTargets.Reply(targets: (targets ?? []).map(ListWakeTargets.Target.init))
    }

    func remove(
        _ request: RemoveWakeTarget
    ) throws(AdministrationRefusal) -> RemoveWakeTarget.Reply {
        try checkUser(request.user, ofApp: request.app)
        let (app, user) = (Array(request.app.utf8), Array(request.user.utf8))
        let isRemoved = changeAndCommit { [moment = clock.moment()] state in
            state.broker.removeWakeTarget(
                request.id, app: app, user: user, at: moment, effects: &state.effects)
        }
        report("wake.remove", app: request.app, user: request.user, id: request.id)
        return RemoveWakeTarget.Reply(isRemoved: isRemoved == true)
    }

    func test(_ request: TestWake) throws(AdministrationRefusal) -> TestWake.Reply {
        try checkUser(request.user, ofApp: request.app)
        let (app, user) = (Array(request.app.utf8), Array(request.user.utf8))
        let count = changeAndCommit { [moment = clock.moment()] state in
            state.broker.testWake(
                app: app, user: user, target: request.id, at: moment, effects: &state.effects)
        }
        guard let count else {
            throw AdministrationRefusal(
                .topicNameInvalid,
                "no relay was told: the user has no such target, apps.\(request.app).wake is not "
                    + "set, or the relay's user is not known or its queue is full")
        }
        report("wake.test", app: request.app, user: request.user, id: request.id ?? 0)
        return TestWake.Reply(targetCount: count)
    }

    func list(_ request: ListWakeLog) throws(AdministrationRefusal) -> ListWakeLog.Reply {
        try checkUser(request.user, ofApp: request.app)
        let page = shared.enter {
            $0.broker.wakeReports(
                app: Array(request.app.utf8), user: Array(request.user.utf8),
                after: request.after, limit: request.limit ?? ListWakeLog.countMaximum)
        }
        return ListWakeLog.Reply(
            entries: (page?.reports ?? []).map(ListWakeLog.Entry.init), last: page?.last ?? 0)
    }

    private func checkUser(_ user: String, ofApp app: String) throws(AdministrationRefusal) {
        try checkApp(app)
        let isKnown = shared.enter {
            $0.broker.wakeTargets(app: Array(app.utf8), user: Array(user.utf8)) != nil
        }
        guard isKnown else { throw Self.unknownUser(user, app) }
    }

    private func report(_ name: String, app: String, user: String, id: UInt64) {
        log.write(
            .info, .administration,
            fields: [
                "request": .text(name), "app": .text(app), "user": .text(user), "id": .number(id),
            ])
    }
}

extension WakeTarget {
    init(_ request: SetWakeTarget) {
        guard let kind = Kind(named: request.kind.rawValue),
            let environment = Environment(named: (request.environment ?? .production).rawValue)
        else { preconditionFailure("\(request.kind.rawValue) is no kind of the core") }
        self.init(
            device: Array((request.device ?? "").utf8), kind: kind,
            address: Array(request.address.utf8), environment: environment,
            language: Array((request.language ?? "").utf8))
    }
}

extension WakeTargetKind {
    init(_ kind: WakeTarget.Kind) {
        guard let known = WakeTargetKind(rawValue: "\(kind.name)") else {
            preconditionFailure("\(kind.name) is no kind of administrators")
        }
        self = known
    }
}

extension ListWakeLog.Entry {
    fileprivate init(_ report: WakeReport) {
        self.init(
            number: report.number, unixMilliseconds: report.time, id: report.target,
            kind: WakeTargetKind(report.kind), step: "\(report.step.name)", wake: report.wake,
            messageCount: report.count,
            detail: report.detail.isEmpty ? nil : String(decoding: report.detail, as: UTF8.self))
    }
}

extension ListWakeTargets.Target {
    fileprivate init(_ target: WakeTarget) {
        func text(_ bytes: [UInt8]) -> String? {
            bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
        }
        self.init(
            id: target.identifier, device: text(target.device),
            kind: WakeTargetKind(target.kind), address: text(target.address) ?? "",
            environment: target.environment == .sandbox ? .sandbox : .production,
            language: text(target.language), isSilent: target.isSilent)
    }
}
