// The files of messages, outside the store of messages:
//
//     DIRECTORY/key                    32 random bytes
//     DIRECTORY/APP/NAME.SENDER        APP is the name of the app in hexadecimal
//     DIRECTORY/APP.NUMBER.removed     files of an app that was deleted
//
// The name of a file is a digest of its content under the key: a file is there once, and nobody
// finds one by its content. A file is written under another name, synced and renamed, so that the
// end of the broker leaves no half of one. The modification time of a file says when it was sent
// last, in seconds of broker time, which no setting of the system's clock changes. SENDER is a
// digest of the user who sent it. Files from before there were shares have no SENDER.

import Credentials
import Glibc
import Threads
import WireFormat

/// The files of all apps.
final class FileStore: Sendable {
    /// Why a file is not taken.
    enum Refusal: Error {
        /// The app has as many bytes or files as it may have.
        case quota
        /// The user has.
        case share
        case disk(code: Int32)

        /// The errno of a directory or a disk that has failed otherwise than for lack of room; nil
        /// for others.
        var faultCode: Int32? {
            guard case .disk(let code) = self, code != ENOSPC, code != EDQUOT else { return nil }
            return code
        }
    }

    /// A file that is open for reading.
    struct OpenFile {
        let descriptor: Int32
        let byteCount: Int
        let type: StoredFileType
    }

    let directory: String
    private let key: [UInt8]
    private let quota: FileQuota
    private let ageSeconds: UInt64
    /// By the app in hexadecimal.
    private let apps: Locked<[String: AppFiles]>
    private let expired = Locked<UInt64>(0)
    private let removed: Locked<Removed>

    /// Files of apps that were deleted.
    private struct Removed {
        /// Folders that are not deleted yet.
        var folders: [String]
        /// Files that were deleted.
        var count: UInt64 = 0
    }

    /// Opens a directory, which is made if it is not there, and removes what an earlier broker left
    /// unfinished.
    ///
    /// - Parameter ageSeconds: after which a file is removed.
    init(
        directory: String, quota: FileQuota, ageSeconds: UInt64
    ) throws(StartError) {
        self.directory = directory
        self.quota = quota
        self.ageSeconds = ageSeconds
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else {
            throw .file(call: "mkdir", path: directory, errno: errno)
        }
        key = try Self.readKey(in: directory)
        var found: [String: AppFiles] = [:]
        var folders: [String] = []
        for entry in Self.entries(of: directory) {
            if Self.isApp(entry) { found[entry] = Self.readFiles("\(directory)/\(entry)") }
            if entry.hasSuffix(Self.removedEnding) { folders.append(entry) }
        }
        apps = Locked(found)
        removed = Locked(Removed(folders: folders))
    }

    /// The directory of an app.
    static func place(ofApp app: String) -> String {
        app.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The app of a directory; nil for what is none.
    static func app(ofPlace place: String) -> String? {
        guard isApp(place) else { return nil }
        let digits = place.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        let bytes = stride(from: 0, to: digits.count, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// An id has at most 64 bytes.
    private static func isApp(_ place: String) -> Bool {
        (2...128).contains(place.utf8.count) && place.utf8.count % 2 == 0
            && place.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x61...0x66).contains($0)
            }
    }

    /// What all apps have.
    var amount: AppFiles.Amount {
        apps.withLock { apps in
            apps.values.reduce(into: AppFiles.Amount()) { sum, files in
                sum.fileCount += files.amount.fileCount
                sum.byteCount += files.amount.byteCount
            }
        }
    }

    func fileCount(ofApp app: String) -> Int {
        apps.withLock { $0[Self.place(ofApp: app)]?.amount.fileCount ?? 0 }
    }

    // MARK: - Files

    /// Keeps a file, and returns its name when it is on disk. It is in the share of its last
    /// sender.
    func put(
        _ content: [UInt8], type: StoredFileType, from user: String, app: String,
        seconds now: UInt64
    ) throws(Refusal) -> StoredFileName {
        let place = Self.place(ofApp: app)
        let name = name(of: content, type: type, place: place)
        let sender = sender(user, place: place)
        expire(at: place, seconds: now)
        let (known, refusal) = apps.withLock { apps in
            let files = apps[place] ?? AppFiles()
            return (
                files.files[name],
                files.refusal(of: name, byteCount: content.count, from: sender, within: quota)
            )
        }
        if let refusal { throw refusal }
        let file = StoredFile(
            byteCount: content.count, sentSeconds: now, sender: sender)
        let isRenewed = known.map { renew(name, known: $0, as: file, at: place) } ?? false
        if !isRenewed {
            try write(content, to: path(of: name, file, at: place), seconds: now, at: place)
        }
        apps.withLock { apps in
            let files = apps[place] ?? AppFiles()
            files.add(name, file)
            apps[place] = files
        }
        return name
    }

    private func name(
        of content: [UInt8], type: StoredFileType, place: String
    ) -> StoredFileName {
        StoredFileName(
            digest: digest(of: Array("\(place).\(type.ending).".utf8) + content, wordCount: 4),
            ending: type.ending)
    }

    private func sender(_ user: String, place: String) -> FileSender {
        let digits = digest(of: Array("\(place)/\(user)".utf8), wordCount: 1)
        guard let number = UInt64(digits, radix: 16) else {
            preconditionFailure("a digest has the digits \(digits)")
        }
        return FileSender(digest: number)
    }

    /// Hexadecimal digits of a digest under the key, 16 of each word.
    private func digest(of content: [UInt8], wordCount: Int) -> String {
        // The checker of lifetimes wants a copy (6.3.1).
        let key = key
        let digest = SHA256Digest(of: content.span.bytes, key: key.span.bytes).bytes
        var digits: [UInt8] = []
        for start in stride(from: 0, to: 8 * wordCount, by: 8) {
            digits.append(
                hexadecimal: digest[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) })
        }
        return String(decoding: digits, as: UTF8.self)
    }

    /// Gives a file on disk its whole time again, and its new sender. False if it is not there.
    private func renew(
        _ name: StoredFileName, known: StoredFile, as file: StoredFile, at place: String
    ) -> Bool {
        let path = path(of: name, known, at: place)
        guard Self.setTime(of: path, file.sentSeconds) else { return false }
        return known.sender == file.sender
            || rename(path, self.path(of: name, file, at: place)) == 0
    }

    /// Opens a file; nil if it is not there, or too old.
    func open(
        _ name: StoredFileName, place: String, seconds now: UInt64
    ) -> OpenFile? {
        let file = apps.withLock { apps in apps[place]?.files[name] }
        guard let file, now <= file.sentSeconds + ageSeconds,
            let type = StoredFileType(ending: name.ending)
        else { return nil }
        let descriptor = Glibc.open(
            path(of: name, file, at: place), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        return OpenFile(descriptor: descriptor, byteCount: file.byteCount, type: type)
    }

    // MARK: - Age

    /// Files from after `now` have the time of another clock, or of a store that was replaced: they
    /// begin their time now.
    func begin(seconds now: UInt64) {
        for place in apps.withLock({ Array($0.keys) }) {
            let changed = apps.withLock { apps in apps[place]?.begin(at: now) ?? [] }
            for entry in changed {
                _ = Self.setTime(of: path(of: entry.name, entry.file, at: place), now)
            }
        }
    }

    /// Sets the modification time of a file, which says when it was sent last.
    private static func setTime(of path: String, _ seconds: UInt64) -> Bool {
        let time = timespec(tv_sec: Int(clamping: seconds), tv_nsec: 0)
        return utimensat(AT_FDCWD, path, [time, time], 0) == 0
    }

    /// Files that were removed because of their age.
    var expiredCount: UInt64 { expired.withLock { $0 } }

    /// Removes some files that are too old. Returns whether there may be more.
    @discardableResult
    func expire(seconds now: UInt64) -> Bool {
        var hasMore = false
        for place in apps.withLock({ Array($0.keys) }) {
            if expire(at: place, seconds: now) { hasMore = true }
        }
        return hasMore
    }

    @discardableResult
    private func expire(at place: String, seconds now: UInt64) -> Bool {
        var expired: [(name: StoredFileName, file: StoredFile)] = []
        let hasMore = apps.withLock { apps in
            apps[place]?.takeExpired(
                sentBefore: now - min(now, ageSeconds), into: &expired) ?? false
        }
        for (name, file) in expired { unlink(path(of: name, file, at: place)) }
        self.expired.withLock { $0 += UInt64(expired.count) }
        return hasMore
    }

    // MARK: - Apps that are deleted

    /// Files of apps that were deleted, which are deleted too.
    var removedCount: UInt64 { removed.withLock(\.count) }

    /// Takes away the files of an app: from now on nobody finds them. ``deleteRemoved()`` deletes
    /// them, also after a restart of the broker.
    func remove(app: String) throws(Refusal) {
        let place = Self.place(ofApp: app)
        let folder = "\(place).\(UInt64.random(in: 0...(.max))).\(Self.removedEnding)"
        // Files that stay are known until their age.
        let isRenamed = rename("\(directory)/\(place)", "\(directory)/\(folder)") == 0
        guard isRenamed || errno == ENOENT else { throw .disk(code: errno) }
        apps.withLock { $0[place] = nil }
        guard isRenamed else { return }
        removed.withLock { $0.folders.append(folder) }
        guard Self.sync(directory) else { throw .disk(code: errno) }
    }

    /// Deletes some files of apps that were deleted. Returns whether there are more.
    func deleteRemoved() -> Bool {
        guard let folder = removed.withLock({ $0.folders.first }) else { return false }
        let path = "\(directory)/\(folder)"
        let names = Self.entries(
            of: path, countMaximum: FileStoreLimits.expiredPerStepMaximum)
        let count = names.count(where: { unlink("\(path)/\($0)") == 0 })
        removed.withLock { $0.count += UInt64(count) }
        if count > 0 { return true }
        // It is empty; or its files cannot be deleted, and the next start of the broker tries
        // again.
        rmdir(path)
        return removed.withLock { removed in
            removed.folders.removeFirst()
            return !removed.folders.isEmpty
        }
    }

    // MARK: - Disk

    private func path(of name: StoredFileName, _ file: StoredFile, at place: String) -> String {
        let path = "\(directory)/\(place)/\(name.text)"
        guard let sender = file.sender else { return path }
        var digits: [UInt8] = []
        digits.append(hexadecimal: sender.digest)
        return "\(path).\(String(decoding: digits, as: UTF8.self))"
    }

    private static let removedEnding = "removed"
    private static let unfinishedEnding = ".new"

    private func write(
        _ content: [UInt8], to target: String, seconds: UInt64, at place: String
    ) throws(Refusal) {
        let folder = "\(directory)/\(place)"
        if mkdir(folder, 0o700) == 0 {
            guard Self.sync(directory) else { throw .disk(code: errno) }
        } else if errno != EEXIST {
            throw .disk(code: errno)
        }
        let temporary = target + Self.unfinishedEnding
        let descriptor = Glibc.open(
            temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .disk(code: errno) }
        let isWritten =
            Self.write(content, to: descriptor) && Self.setTime(of: temporary, seconds)
            && fsync(descriptor) == 0
        var code = errno
        close(descriptor)
        if isWritten {
            if rename(temporary, target) == 0, Self.sync(folder) { return }
            code = errno
            unlink(target)
        }
        unlink(temporary)
        throw .disk(code: code)
    }

    private static func write(_ content: [UInt8], to descriptor: Int32) -> Bool {
        var offset = 0
        while offset < content.count {
            let count = content.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress! + offset, $0.count - offset)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            offset += count
        }
        return true
    }

    private static func sync(_ folder: String) -> Bool {
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return fsync(descriptor) == 0
    }

    private static func readKey(in directory: String) throws(StartError) -> [UInt8] {
        let path = "\(directory)/key"
        var key = [UInt8](repeating: 0, count: 32)
        var descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        if descriptor >= 0 {
            defer { close(descriptor) }
            guard read(descriptor, &key, key.count) == key.count else {
                throw .file(call: "read", path: path, errno: EINVAL)
            }
            return key
        }
        guard errno == ENOENT else { throw .file(call: "open", path: path, errno: errno) }
        key = key.map { _ in UInt8.random(in: 0...(.max)) }
        // As with files: the end of the broker leaves no half of a key.
        let temporary = path + unfinishedEnding
        descriptor = Glibc.open(
            temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .file(call: "open", path: temporary, errno: errno) }
        let isWritten = write(key, to: descriptor) && fsync(descriptor) == 0
        let code = errno
        close(descriptor)
        guard isWritten else { throw .file(call: "write", path: temporary, errno: code) }
        guard rename(temporary, path) == 0, sync(directory) else {
            throw .file(call: "rename", path: path, errno: errno)
        }
        return key
    }

    /// Names in a directory, as many as there are at most.
    private static func entries(of path: String, countMaximum: Int = .max) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while names.count < countMaximum, let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private static func readFiles(_ folder: String) -> AppFiles {
        var found: [(path: String, name: StoredFileName, file: StoredFile)] = []
        for entry in entries(of: folder) {
            let path = "\(folder)/\(entry)"
            if entry.hasSuffix(unfinishedEnding) {
                unlink(path)
                continue
            }
            var status = stat()
            guard let (name, sender) = Self.name(ofEntry: entry), lstat(path, &status) == 0,
                status.st_mode & S_IFMT == S_IFREG
            else { continue }
            let file = StoredFile(
                byteCount: Int(status.st_size),
                sentSeconds: UInt64(clamping: status.st_mtim.tv_sec), sender: sender)
            found.append((path, name, file))
        }
        let files = AppFiles()
        var paths: [StoredFileName: String] = [:]
        for (path, name, file) in found.sorted(by: {
            $0.file.sentSeconds < $1.file.sentSeconds
        }) {
            files.add(name, file)
            // A file of two senders is from a copy of the directory.
            if let other = paths.updateValue(path, forKey: name) { unlink(other) }
        }
        return files
    }

    /// What the name of a file on disk says.
    private static func name(ofEntry entry: String) -> (StoredFileName, FileSender?)? {
        let parts = entry.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return StoredFileName(entry).map { ($0, nil) } }
        guard let name = StoredFileName("\(parts[0]).\(parts[1])"), parts[2].utf8.count == 16,
            let digest = UInt64(parts[2], radix: 16)
        else { return nil }
        return (name, FileSender(digest: digest))
    }
}
