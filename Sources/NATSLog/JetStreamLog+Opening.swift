// Opens the log: connects, finds or creates the stream, and checks that stream and servers can keep
// what an acknowledgement promises.

import CNATS
import Replication

/// What a log that was opened promises, for the program's log and statistics.
public struct JetStreamReport: Sendable {
    /// The stream at the start.
    public let stream: StreamDescription
    /// The version of the server to which the node is connected.
    public let serverVersion: ServerVersion?
    /// What weakens the promise. With the strict durability it is empty.
    public let weaknesses: [String]
    /// Whether each server with a copy was asked for its sync setting.
    public let isSyncKnown: Bool
}

/// What to do where there is no stream.
public enum JetStreamCreation: Hashable, Sendable {
    case never
    /// - Parameter byteCountMaximum: of all records together; the servers reserve nothing.
    case ifAbsent(byteCountMaximum: Int64)
}

extension JetStreamLog {
    /// Opens the log of a stream. Blocks until each server was tried and the requests are answered
    /// or have timed out ([`JetStreamLimits`](Limits.swift)).
    ///
    /// - Parameters:
    ///   - wake: called on a thread of the log when there is an event.
    ///   - notice: called on threads of the library.
    /// - Throws: ``JetStreamError/unavailable(_:)`` if the servers do not answer, and
    ///   ``JetStreamError/leaderless(_:)`` if they have no leader; it may succeed later. All other
    ///   errors need an operator.
    public static func open(
        _ settings: JetStreamSettings, creation: JetStreamCreation = .never,
        notice: @escaping @Sendable (JetStreamNotice) -> Void = { _ in },
        wake: @escaping @Sendable () -> Void
    ) throws(JetStreamError) -> (log: JetStreamLog, report: JetStreamReport) {
        let connection = try JetStreamConnection(
            settings, credentials: settings.credentials, report: notice)
        let version = try connection.serverVersion()
        let stream = try find(settings, creation, over: connection)
        let report = try check(stream, of: version, settings, over: connection)
        let log = JetStreamLog(
            settings, connection: connection, created: stream.created, wake: wake)
        log.start()
        return (log, report)
    }

    /// The stream now.
    public func describe() throws(JetStreamError) -> StreamDescription {
        try connection.describe(
            stream: settings.stream, milliseconds: JetStreamLimits.tryMilliseconds)
    }

    private static func find(
        _ settings: JetStreamSettings, _ creation: JetStreamCreation,
        over connection: JetStreamConnection
    ) throws(JetStreamError) -> StreamDescription {
        do throws(JetStreamError) {
            return try connection.describe(stream: settings.stream)
        } catch {
            guard case .absent = error, case .ifAbsent(let byteCount) = creation else {
                throw error
            }
            return try connection.create(
                stream: settings.stream, subject: settings.subject, byteCountMaximum: byteCount,
                replicas: settings.durability == .strict ? JetStreamLimits.replicasMinimum : 1)
        }
    }

    private static func check(
        _ stream: StreamDescription, of version: ServerVersion?, _ settings: JetStreamSettings,
        over connection: JetStreamConnection
    ) throws(JetStreamError) -> JetStreamReport {
        // The server counts the header too.
        let needed =
            ReplicationLimits.recordByteCountMaximum + JetStreamLimits.headerByteCountMaximum
        var findings = StreamRequirements.check(
            stream, subject: settings.subject, recordByteCountMaximum: needed)
        if connection.payloadByteCountMaximum < needed {
            findings.faults.append(
                "max_payload of the server is \(connection.payloadByteCountMaximum), records need "
                    + "\(needed): set max_payload: 9MB")
        }
        for version in [version, stream.leaderVersion] {
            guard let version, version < JetStreamLimits.serverVersionMinimum else { continue }
            findings.weaknesses.append(
                "a server has version \(version), older than "
                    + "\(JetStreamLimits.serverVersionMinimum)")
        }
        let sync = try durabilities(stream, settings)
        findings.weaknesses += sync.compactMap(\.weakness)
        let refused =
            settings.durability == .strict
            ? findings.faults + findings.weaknesses : findings.faults
        if !refused.isEmpty { throw .unsuitable(refused) }
        return JetStreamReport(
            stream: stream, serverVersion: version, weaknesses: findings.weaknesses,
            isSyncKnown: !sync.isEmpty && sync.count >= stream.peers.count)
    }

    /// Asks each server with a copy; nothing without a user of the system account.
    private static func durabilities(
        _ stream: StreamDescription, _ settings: JetStreamSettings
    ) throws(JetStreamError) -> [ServerDurability] {
        guard let credentials = settings.systemCredentials else { return [] }
        let connection: JetStreamConnection
        do throws(JetStreamError) {
            connection = try JetStreamConnection(settings, credentials: credentials) { _ in }
        } catch {
            throw error == .unauthorised ? .systemUnauthorised : error
        }
        var found: [ServerDurability] = []
        for peer in stream.peers {
            do throws(JetStreamError) {
                found.append(try connection.durability(ofServer: peer.name))
            } catch {
                // A server that is down is asked by the next start.
                guard error.isTemporary else { throw error }
            }
        }
        return found
    }
}
