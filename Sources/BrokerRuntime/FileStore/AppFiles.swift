// The files of one app in memory: which there are, whose they are, and in which order they end.
// It knows no disk.

/// A user who sends files, as a digest under the key of the store: names of users are no parts of
/// paths.
struct FileSender: Hashable, Sendable {
    let digest: UInt64
}

/// A file on disk.
struct StoredFile: Hashable, Sendable {
    let byteCount: Int
    /// When it was sent last, in seconds of broker time.
    var sentSeconds: UInt64
    /// Who sent it last, and whose share it is in; nil for a file from before there were shares.
    var sender: FileSender?
}

/// What may be kept.
struct FileQuota: Sendable {
    /// Bytes of the files of an app.
    let appBytes: Int
    /// The share of one user of an app, in percent of its bytes and of its files.
    let userPercent: Int

    /// Bytes of the files of one user.
    var userBytes: Int { appBytes / 100 * userPercent + appBytes % 100 * userPercent / 100 }
    /// Files of one user.
    var userFiles: Int { max(1, FileStoreLimits.filesPerAppMaximum * userPercent / 100) }
}

/// The files of one app.
final class AppFiles {
    /// Files, and their bytes together.
    struct Amount: Hashable, Sendable {
        var fileCount = 0
        var byteCount = 0

        fileprivate mutating func add(_ file: StoredFile) {
            fileCount += 1
            byteCount += file.byteCount
        }

        fileprivate mutating func remove(_ file: StoredFile) {
            fileCount -= 1
            byteCount -= file.byteCount
        }
    }

    private(set) var files: [StoredFileName: StoredFile] = [:]
    private(set) var amount = Amount()
    private var amounts: [FileSender: Amount] = [:]
    /// Each send, from the oldest one. Of several sends of a file, the last one counts.
    private var sends: [(name: StoredFileName, seconds: UInt64)] = []
    /// Places of ``sends`` before this one are done with.
    private var sendsStart = 0

    /// Entries for sends that are not done with.
    var rememberedSendCount: Int { sends.count - sendsStart }

    /// Why a file of a user has no room; nil if it has. One that is there already needs room in the
    /// share of its new sender only.
    func refusal(
        of name: StoredFileName, byteCount: Int, from sender: FileSender, within quota: FileQuota
    ) -> FileStore.Refusal? {
        let known = files[name]
        if let known, known.sender == sender { return nil }
        let hasRoom =
            known != nil
            || amount.byteCount + byteCount <= quota.appBytes
                && amount.fileCount < FileStoreLimits.filesPerAppMaximum
        guard hasRoom else { return .quota }
        let own = amounts[sender] ?? Amount()
        return own.byteCount + byteCount <= quota.userBytes && own.fileCount < quota.userFiles
            ? nil : .share
    }

    /// Adds a file, or gives one that is there its whole time and its sender anew.
    func add(_ name: StoredFileName, _ file: StoredFile) {
        let hasPlace = files[name]?.sentSeconds == file.sentSeconds
        remove(name)
        files[name] = file
        amount.add(file)
        if let sender = file.sender { amounts[sender, default: Amount()].add(file) }
        guard !hasPlace else { return }
        sends.append((name, file.sentSeconds))
        // Sends of the same file again are a half of the list at most.
        if rememberedSendCount > 2 * files.count + FileStoreLimits.sendsKeptMinimum {
            sends = sends[sendsStart...].filter {
                files[$0.name]?.sentSeconds == $0.seconds
            }
            sendsStart = 0
        }
    }

    private func remove(_ name: StoredFileName) {
        guard let file = files.removeValue(forKey: name) else { return }
        amount.remove(file)
        guard let sender = file.sender else { return }
        amounts[sender]?.remove(file)
        if amounts[sender]?.fileCount == 0 { amounts[sender] = nil }
    }

    /// Lets files from after a time begin theirs at it.
    ///
    /// - Returns: those files, as they were.
    func begin(at now: UInt64) -> [(name: StoredFileName, file: StoredFile)] {
        let changed = files.filter { $0.value.sentSeconds > now }
        guard !changed.isEmpty else { return [] }
        for name in changed.keys { files[name]?.sentSeconds = now }
        sends = files.map { ($0.key, $0.value.sentSeconds) }.sorted { $0.1 < $1.1 }
        sendsStart = 0
        return changed.map { ($0.key, $0.value) }
    }

    /// Takes out some files from before a time. Returns whether there may be more.
    func takeExpired(
        sentBefore end: UInt64, into expired: inout [(name: StoredFileName, file: StoredFile)]
    ) -> Bool {
        defer { compactSends() }
        for _ in 0..<FileStoreLimits.expiredPerStepMaximum {
            guard sendsStart < sends.count, sends[sendsStart].seconds < end else {
                return false
            }
            let send = sends[sendsStart]
            sendsStart += 1
            guard let file = files[send.name], file.sentSeconds == send.seconds else {
                continue
            }
            remove(send.name)
            expired.append((send.name, file))
        }
        return true
    }

    /// What is done with is a half of the list at most.
    private func compactSends() {
        guard sendsStart > sends.count / 2 else { return }
        sends.removeFirst(sendsStart)
        sendsStart = 0
    }
}
