// The files of messages, outside the store of messages:
//
//     DIRECTORY/key              32 random bytes
//     DIRECTORY/APP/NAME         APP is the name of the app in hexadecimal
//
// The name of a file is a digest of its content under the key: a file is there once, and nobody
// finds one by its content. A file is written under another name, synced and renamed, so that the
// end of the broker leaves no half of one. The time of a file says when it was sent last.

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
        case disk(code: Int32)
    }

    /// What all apps have.
    struct Amount: Hashable {
        var fileCount = 0
        var byteCount = 0
    }

    /// A file that is open for reading.
    struct OpenFile {
        let descriptor: Int32
        let byteCount: Int
        let type: StoredFileType
    }

    private struct File {
        let byteCount: Int
        var sentUnixSeconds: UInt64
        /// Whether it was sent again, so that its place in the order is too early.
        var isSentAgain = false
    }

    /// The files of one app.
    private final class Files {
        private(set) var files: [StoredFileName: File] = [:]
        private(set) var byteCount = 0
        /// From the oldest one.
        private var order: [StoredFileName] = []
        /// Places of ``order`` before this one are done with.
        private var orderStart = 0

        /// Adds a file, in the place of one that is missing on disk.
        func add(_ name: StoredFileName, _ file: File) {
            if let missing = files.updateValue(file, forKey: name) {
                byteCount += file.byteCount - missing.byteCount
                files[name]?.isSentAgain = true
                return
            }
            byteCount += file.byteCount
            order.append(name)
        }

        /// Gives a file its whole time again. False if it is not there.
        func touch(_ name: StoredFileName, unixSeconds now: UInt64) -> Bool {
            guard files[name] != nil else { return false }
            files[name]?.sentUnixSeconds = now
            files[name]?.isSentAgain = true
            return true
        }

        /// Takes out some files from before a time. Returns whether there may be more.
        func takeExpired(
            sentBefore end: UInt64, into expired: inout [StoredFileName]
        ) -> Bool {
            defer { compactOrder() }
            for _ in 0..<FileStoreLimits.expiredPerStepMaximum {
                guard orderStart < order.count else { return false }
                let name = order[orderStart]
                guard let file = files[name] else {
                    preconditionFailure("\(name.text) has a place in the order and is no file")
                }
                guard file.isSentAgain || file.sentUnixSeconds < end else { return false }
                orderStart += 1
                if file.isSentAgain {
                    files[name]?.isSentAgain = false
                    order.append(name)
                } else {
                    files[name] = nil
                    byteCount -= file.byteCount
                    expired.append(name)
                }
            }
            return true
        }

        /// What is done with is a half of the list at most.
        private func compactOrder() {
            guard orderStart > order.count / 2 else { return }
            order.removeFirst(orderStart)
            orderStart = 0
        }
    }

    private let directory: String
    private let key: [UInt8]
    private let bytesPerApp: Int
    private let ageSeconds: UInt64
    /// By the app in hexadecimal.
    private let apps: Locked<[String: Files]>
    private let expired = Locked<UInt64>(0)

    /// Opens a directory, which is made if it is not there, and removes what an earlier broker left
    /// unfinished.
    ///
    /// - Parameters:
    ///   - bytesPerApp: the files of an app.
    ///   - ageSeconds: after which a file is removed.
    init(
        directory: String, bytesPerApp: Int, ageSeconds: UInt64
    ) throws(StartError) {
        self.directory = directory
        self.bytesPerApp = bytesPerApp
        self.ageSeconds = ageSeconds
        guard mkdir(directory, 0o700) == 0 || errno == EEXIST else {
            throw .file(call: "mkdir", path: directory, errno: errno)
        }
        key = try Self.readKey(in: directory)
        var found: [String: Files] = [:]
        for app in Self.entries(of: directory) where Self.isApp(app) {
            found[app] = Self.readFiles("\(directory)/\(app)")
        }
        apps = Locked(found)
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

    var amount: Amount {
        apps.withLock { apps in
            apps.values.reduce(into: Amount()) { sum, files in
                sum.fileCount += files.files.count
                sum.byteCount += files.byteCount
            }
        }
    }

    // MARK: - Files

    /// Keeps a file, and returns its name when it is on disk.
    func put(
        _ content: [UInt8], type: StoredFileType, app: String, unixSeconds now: UInt64
    ) throws(Refusal) -> StoredFileName {
        let place = Self.place(ofApp: app)
        let name = name(of: content, type: type, place: place)
        if touch(name, at: place, unixSeconds: now) { return name }
        expire(at: place, unixSeconds: now)
        let isAdmitted = apps.withLock { apps in
            guard let files = apps[place] else { return content.count <= bytesPerApp }
            return files.byteCount + content.count <= bytesPerApp
                && files.files.count < FileStoreLimits.filesPerAppMaximum
        }
        guard isAdmitted else { throw .quota }
        try write(content, name, at: place)
        apps.withLock { apps in
            let files = apps[place] ?? Files()
            files.add(name, File(byteCount: content.count, sentUnixSeconds: now))
            apps[place] = files
        }
        return name
    }

    private func name(
        of content: [UInt8], type: StoredFileType, place: String
    ) -> StoredFileName {
        let (key, signed) = (key, Array("\(place).\(type.ending).".utf8) + content)
        let digest = SHA256Digest(of: signed.span.bytes, key: key.span.bytes).bytes
        var digits: [UInt8] = []
        for start in stride(from: 0, to: digest.count, by: 8) {
            digits.append(
                hexadecimal: digest[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) })
        }
        return StoredFileName(
            digest: String(decoding: digits, as: UTF8.self), ending: type.ending)
    }

    /// Gives a file its whole time again. False if it is not there.
    private func touch(_ name: StoredFileName, at place: String, unixSeconds now: UInt64) -> Bool {
        let isThere = apps.withLock { $0[place]?.touch(name, unixSeconds: now) ?? false }
        return isThere && utimensat(AT_FDCWD, path(of: name, at: place), nil, 0) == 0
    }

    /// Opens a file; nil if it is not there, or too old.
    func open(
        _ name: StoredFileName, place: String, unixSeconds now: UInt64
    ) -> OpenFile? {
        let file = apps.withLock { apps in apps[place]?.files[name] }
        guard let file, now <= file.sentUnixSeconds + ageSeconds,
            let type = StoredFileType(ending: name.ending)
        else { return nil }
        let descriptor = Glibc.open(
            path(of: name, at: place), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        return OpenFile(descriptor: descriptor, byteCount: file.byteCount, type: type)
    }

    // MARK: - Age

    /// Files that were removed because of their age.
    var expiredCount: UInt64 { expired.withLock { $0 } }

    /// Removes some files that are too old. Returns whether there may be more.
    @discardableResult
    func expire(unixSeconds now: UInt64) -> Bool {
        var hasMore = false
        for place in apps.withLock({ Array($0.keys) }) {
            if expire(at: place, unixSeconds: now) { hasMore = true }
        }
        return hasMore
    }

    @discardableResult
    private func expire(at place: String, unixSeconds now: UInt64) -> Bool {
        var expired: [StoredFileName] = []
        let hasMore = apps.withLock { apps in
            apps[place]?.takeExpired(
                sentBefore: now - min(now, ageSeconds), into: &expired) ?? false
        }
        for name in expired { unlink(path(of: name, at: place)) }
        self.expired.withLock { $0 += UInt64(expired.count) }
        return hasMore
    }

    // MARK: - Disk

    private func path(of name: StoredFileName, at place: String) -> String {
        "\(directory)/\(place)/\(name.text)"
    }

    private static let unfinishedEnding = ".new"

    private func write(
        _ content: [UInt8], _ name: StoredFileName, at place: String
    ) throws(Refusal) {
        let folder = "\(directory)/\(place)"
        if mkdir(folder, 0o700) == 0 {
            guard Self.sync(directory) else { throw .disk(code: errno) }
        } else if errno != EEXIST {
            throw .disk(code: errno)
        }
        let target = path(of: name, at: place)
        let temporary = target + Self.unfinishedEnding
        let descriptor = Glibc.open(
            temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .disk(code: errno) }
        let isWritten = Self.write(content, to: descriptor) && fsync(descriptor) == 0
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

    private static func entries(of path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                })
        }
        return names
    }

    private static func readFiles(_ folder: String) -> Files {
        let files = Files()
        var found: [(name: StoredFileName, file: File)] = []
        for entry in entries(of: folder) {
            if entry.hasSuffix(unfinishedEnding) {
                unlink("\(folder)/\(entry)")
                continue
            }
            var status = stat()
            guard let name = StoredFileName(entry), lstat("\(folder)/\(entry)", &status) == 0,
                status.st_mode & S_IFMT == S_IFREG
            else { continue }
            found.append(
                (
                    name,
                    File(
                        byteCount: Int(status.st_size),
                        sentUnixSeconds: UInt64(clamping: status.st_mtim.tv_sec))
                ))
        }
        for (name, file) in found.sorted(by: { $0.file.sentUnixSeconds < $1.file.sentUnixSeconds })
        {
            files.add(name, file)
        }
        return files
    }
}
