// The passwords that users have registered with, in a file of the data directory: hashes only.
//
//     martlet-passwords 1
//     APP<TAB>USER<TAB>HASH
//     end

import Credentials
import Glibc
import SourceInterfaces
import Threads

/// The registered passwords of a broker.
final class PasswordFile: RegisteredPasswords {
    /// The file's name in the data directory.
    static let fileName = "registered-passwords"
    private static let heading = "martlet-passwords 1"
    /// Without it, a file that was cut at the end of a line would be another one.
    private static let ending = "end"

    private let directory: String
    private let hashes: Locked<[SourceUser: String]>

    /// Without a file, and without passwords.
    init() {
        directory = "."
        hashes = Locked([:])
    }

    /// Reads the file of a data directory, if there is one.
    init(dataDirectory: String) throws(CredentialError) {
        directory = dataDirectory
        let path = "\(dataDirectory)/\(Self.fileName)"
        guard let content = try PrivateFile.read(path) else {
            hashes = Locked([:])
            return
        }
        hashes = Locked(try Self.parse(content, path: path))
    }

    func hash(of user: SourceUser) -> String? { hashes.withLock { $0[user] } }

    func add(_ hash: String, of user: SourceUser) throws(SourceRefusal) {
        try hashes.withLock { (hashes) throws(SourceRefusal) in
            guard hashes[user] == nil else {
                throw SourceRefusal(409, field: "username", "is taken")
            }
            guard hashes.count < SourceLimits.passwordsMaximum else {
                throw SourceRefusal(
                    507, "more than \(SourceLimits.passwordsMaximum) registered users")
            }
            var new = hashes
            new[user] = hash
            do throws(CredentialError) {
                let path = "\(directory)/\(Self.fileName)"
                try PrivateFile.write(Self.text(of: new), to: path)
                try PrivateDirectory.sync(directory)
            } catch {
                throw SourceRefusal(500, "the file of passwords cannot be written")
            }
            hashes = new
        }
    }

    private static func text(of hashes: [SourceUser: String]) -> [UInt8] {
        let lines = hashes.map { "\($0.key.app)\t\($0.key.user)\t\($0.value)" }.sorted()
        return Array(([heading] + lines + [ending, ""]).joined(separator: "\n").utf8)
    }

    /// - Throws: the line that is damaged: a broker must not forget who has a name.
    static func parse(
        _ content: [UInt8], path: String
    ) throws(CredentialError) -> [SourceUser: String] {
        func fault(_ line: Int, _ reason: String) -> CredentialError {
            .unusable(
                path: path, reason: "line \(line) \(reason); restore the file from a backup")
        }
        guard let text = String(validating: content, as: UTF8.self) else {
            throw fault(1, "is not UTF-8")
        }
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.first.map(String.init) == heading else {
            throw fault(1, "is not \"\(heading)\"")
        }
        guard lines.popLast() == "", lines.popLast().map(String.init) == ending else {
            throw fault(lines.count + 1, "is not \"\(ending)\"")
        }
        var hashes: [SourceUser: String] = [:]
        for (index, line) in lines.enumerated().dropFirst() {
            let words = line.split(separator: "\t", omittingEmptySubsequences: false)
                .map(String.init)
            guard words.count == 3 else { throw fault(index + 1, "is damaged") }
            let user = SourceUser(app: words[0], user: words[1])
            guard hashes.updateValue(words[2], forKey: user) == nil else {
                throw fault(index + 1, "repeats a user")
            }
        }
        return hashes
    }
}
