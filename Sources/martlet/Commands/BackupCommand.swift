// `martlet backup`: a copy of the store of a running broker. The broker makes it; this command
// waits for its end and prints the progress.

import Administration
import CommandLineOptions
import Glibc

enum BackupOption: String, AdministrationRules {
    case data, server, ca, token, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum BackupCommand {
    private struct Result: Encodable {
        var directory: String
        var byteCount: UInt64
        var findings: [String]
    }

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<BackupOption>.options(arguments, positionalMaximum: 1)
        guard let path = options.positionals.first else {
            throw UsageError("missing DIRECTORY: martlet backup DIRECTORY")
        }
        let broker = try options.administration()
        if broker.isRemote, !path.hasPrefix("/") {
            throw UsageError(
                "DIRECTORY is on the broker's machine: it must begin with /, not \"\(path)\"")
        }
        let directory = try absolute(path)
        let started = try broker.send(BackUpStore(directory: directory))
        let status: BackupStatus
        do throws(AdministrationError) {
            status = try wait(for: started, broker)
        } catch {
            throw CommandFailure(
                "\(error); the backup into \(directory) may go on: the broker's log tells its end "
                    + "(event=backup_finished or backup_failed)", .failure)
        }
        if let failure = status.failure { throw CommandFailure(failure, .failure) }
        let result = Result(
            directory: directory, byteCount: status.byteCount, findings: status.findings)
        // The configuration names the shards, and the data directory too.
        let restore =
            status.hasShards == true
            ? "martletd --config FILE --restore \(directory)"
            : "martletd --restore \(directory) --data NEW"
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(result)
                : "\(directory): \(counted(status.byteCount, "byte")); put back with \(restore)")
        guard let first = status.findings.first else { return }
        throw CommandFailure(
            "the backup is there, and the store is damaged: \(first); see all damage with "
                + "martletd --verify-store --data \(directory)", .failure)
    }

    /// Polls until the backup has ended, without a time limit.
    private static func wait(
        for started: BackupStatus, _ broker: borrowing AdministrationConnection
    ) throws(AdministrationError) -> BackupStatus {
        var status = started
        var pause: UInt32 = 10
        var bar = ProgressBar()
        defer { bar.clear() }
        while !status.isFinished {
            usleep(pause * 1000)
            pause = min(pause * 2, pauseMillisecondsMaximum)
            guard let last = try broker.send(ShowBackup()).backup, last.number == started.number
            else { throw .closed }
            status = last
            bar.show(
                status.readByteCount, of: status.totalByteCount,
                "\(status.readByteCount >> 20) of at most \(status.totalByteCount >> 20) MiB")
        }
        return status
    }

    private static let pauseMillisecondsMaximum: UInt32 = 500

    /// The broker has its own working directory, so a relative path would mean something else to
    /// it.
    private static func absolute(_ path: String) throws(CommandFailure) -> String {
        if path.hasPrefix("/") { return path }
        guard let directory = getcwd(nil, 0) else {
            throw CommandFailure("getcwd: \(String(cString: strerror(errno)))", .failure)
        }
        defer { free(directory) }
        return "\(String(cString: directory))/\(path)"
    }
}
