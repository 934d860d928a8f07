// The limits of files of messages, each with the reason for its number.

enum FileStoreLimits {
    /// Bytes of a file: the 5 MB that Diuit documents.
    static let fileByteCountMaximum = 5 << 20
    /// Files of an app, each of which takes about 300 bytes of memory.
    static let filesPerAppMaximum = 100_000
    /// Expired files that one step removes: a few milliseconds.
    static let expiredPerStepMaximum = 64
    /// Sends that are remembered beside two of each file, before those that a later one replaced
    /// are forgotten: a client that sends one file again and again fills no memory.
    static let sendsKeptMinimum = 64
    /// Milliseconds that the deletion of an app waits for the thread of files, which may be
    /// reading an event of 7 MiB and syncing its file on a slow disk.
    static let removalMilliseconds: Int32 = 30_000
    /// Seconds between two lines of the log about a disk that has failed: it fails with each file.
    static let failureLineSeconds: UInt64 = 60
    /// Milliseconds between two looks.
    static let expiryMilliseconds: Int32 = 10_000
    /// Files that are read at a time: each has a descriptor, and a piece in memory. Readers with
    /// one address have eight of them, so that those who read slowly leave some to others.
    static let openFiles = RequestShare(users: 64, oneUser: 8, oneKey: 8)
    /// Bytes of a piece that is read and sent at a time.
    static let pieceByteCount = 65_536
    /// Bytes of events with files that wait, of all and of one user: six of the longest.
    static let waitingBytes = RequestShare(users: 48 << 20, oneUser: 8 << 20, oneKey: 8 << 20)
    /// Bytes of an event with a file in base64.
    static let eventByteCountMaximum = 7 << 20
}
