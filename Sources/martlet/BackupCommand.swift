// `martlet backup`: a copy of the store of a running broker.

import Administration
import CommandLineOptions
import Glibc

enum BackupOption: String, AdministrationRules {
    case data, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

enum BackupCommand {
    private struct Result: Encodable {
        var directory: String
        var byteCount: UInt64
    }

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<BackupOption>.options(arguments, positionalMaximum: 1)
        guard let path = options.positionals.first else {
            throw UsageError("say where to: martlet backup DIRECTORY")
        }
        let broker = try AdministrationClient(dataDirectory: options.dataDirectory())
        let directory = try absolute(path)
        let reply = try broker.send(BackUpStore(directory: directory))
        let result = Result(directory: directory, byteCount: reply.byteCount)
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(result)
                : "\(directory): \(counted(reply.byteCount, "byte")); put back with "
                    + "martletd --restore \(directory) --data NEW")
    }

    /// The broker has a working directory of its own: a path from here means nothing to it.
    private static func absolute(_ path: String) throws(CommandFailure) -> String {
        if path.hasPrefix("/") { return path }
        guard let directory = getcwd(nil, 0) else {
            throw CommandFailure("getcwd: \(String(cString: strerror(errno)))", .failure)
        }
        defer { free(directory) }
        return "\(String(cString: directory))/\(path)"
    }
}
