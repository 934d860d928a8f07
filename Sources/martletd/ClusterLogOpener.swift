// The log of a cluster on NATS JetStream, for programs that are built with it
// (docs/decisions/0011-cluster-builds.md).

import BrokerRuntime
import Configuration

#if CLUSTER
    import Files
    import NATSLog
    import Replication

    /// Opens a stream of JetStream.
    let clusterLogOpener: ClusterLogOpener? = ClusterLogOpener {
        (settings, creates, notice, wake) throws(ClusterLogError) in
        let stream = try JetStreamSettings(settings)
        do throws(JetStreamError) {
            let (log, report) = try JetStreamLog.open(
                stream,
                creation: creates
                    ? .ifAbsent(byteCountMaximum: Int64(settings.streamBytes)) : .never,
                notice: { event in
                    if case .connected = event {
                        notice("\(event)", false)
                    } else {
                        notice("\(event)", true)
                    }
                }, wake: wake)
            var warnings = report.weaknesses
            if !report.isSyncKnown {
                warnings.append(
                    "it is not known whether each server runs with sync_interval: always: set "
                        + "cluster.systemUser, or check it by hand")
            }
            return OpenedLog(log: log, warnings: warnings)
        } catch {
            var text = "\(error)"
            if case .absent = error { text += "; a cluster that exists gets no further shard" }
            throw ClusterLogError(
                text, isTemporary: error.isTemporary || creates && error.isOfStart)
        }
    }

    extension JetStreamSettings {
        /// - Throws: a file of a password that cannot be read.
        fileprivate init(_ settings: ClusterSettings) throws(ClusterLogError) {
            self.init(
                servers: settings.servers, stream: settings.stream, node: settings.node ?? "",
                durability: settings.durability == .strict ? .strict : .relaxed)
            if let user = settings.user, let file = settings.passwordFile {
                credentials = .user(user, password: try Self.secret(file))
            } else if let file = settings.credentialsFile {
                credentials = .file(file)
            }
            if let user = settings.systemUser, let file = settings.systemPasswordFile {
                systemCredentials = .user(user, password: try Self.secret(file))
            }
            if settings.servers.contains(where: { $0.hasPrefix("tls://") }) {
                tls = JetStreamTLS(
                    authorityFile: settings.authorityFile,
                    certificateFile: settings.certificateFile, keyFile: settings.keyFile)
            }
        }

        private static func secret(_ file: String) throws(ClusterLogError) -> String {
            do throws(SecretFileFailure) {
                return try SecretFile.read(file)
            } catch {
                throw ClusterLogError("\(error)", isTemporary: false)
            }
        }
    }
#else
    /// This program has no client of the log.
    let clusterLogOpener: ClusterLogOpener? = nil
#endif
