// The thread of files: it keeps what clients send, reads what they ask for in pieces, and removes
// what is too old. No event loop and no operator waits for a disk of files.

import BrokerTerms
import Glibc
import NetTransport
import Primitives
import SourceInterfaces
import Threads
import WireFormat

/// A request for a file.
struct StoredFileRequest: Sendable {
    let place: String
    let name: StoredFileName
    /// Who reads.
    let peer: SocketAddress
    /// `Range` of the request.
    let range: String?
    /// Whether only the head of the response is asked for.
    let isHead: Bool
    /// Whether the connection ends after the response.
    let closes: Bool
    /// Which pages of other origins may read it; nil for none.
    let cors: CORSHeaders?
}

/// What is read of a file, with the head of the response before the first piece.
enum StoredFilePiece: Sendable {
    case bytes([UInt8], isLast: Bool)
    case absent
    /// Too many files are read, by all or from the address.
    case busy
    /// The disk has failed in the middle of a file.
    case failed
}

/// What became of files since the broker started, and how many there are.
struct FileCounts: Sendable {
    /// Files that were stored, those that were there already included.
    fileprivate(set) var stored: UInt64 = 0
    /// Files that have no room: the quota, or the disk.
    fileprivate(set) var refused: UInt64 = 0
    /// Of ``refused``, those beyond the share of their user.
    fileprivate(set) var overShare: UInt64 = 0
    /// Responses with a file.
    fileprivate(set) var served: UInt64 = 0
    /// Requests for a file above the limit of those that are read at a time.
    fileprivate(set) var busy: UInt64 = 0
    fileprivate(set) var expired: UInt64 = 0
    /// Files of apps that were deleted.
    fileprivate(set) var removed: UInt64 = 0
    fileprivate(set) var fileCount = 0
    fileprivate(set) var byteCount = 0
}

/// The files of messages, and the thread that works on them.
final class FileService: Sendable {
    private let store: FileStore
    /// What addresses of files begin with.
    private let address: String
    private let state = Locked(State())
    private let work = WakeSignal()
    private let log: LogWriter

    typealias Answer = (connection: ConnectionID, piece: StoredFilePiece)

    private struct State {
        /// Events with files, the oldest first.
        var calls: [SourceCall] = []
        var byteCounts = RequestShareCounts(FileStoreLimits.waitingBytes)
        var reads = Reads()
        var removals: [FileRemoval] = []
        var isStopped = false
        var counts = FileCounts()
        var answers: [UInt8: [Answer]] = [:]
        /// When the next line of the log may say that the disk has failed.
        var nextFailureLine = Instant(milliseconds: 0)
    }

    /// What connections have asked for. It is taken as a whole, so that the end of a connection is
    /// never seen before its beginning.
    private struct Reads {
        var begun: [(connection: ConnectionID, loop: UInt8, request: StoredFileRequest)] = []
        var continued: [(connection: ConnectionID, loop: UInt8)] = []
        var ended: [ConnectionID] = []
    }

    /// A file that is read.
    private struct Reading {
        let descriptor: Int32
        let reader: RequestHolder
        var rest: Range<Int>
    }

    /// The files that are read, of which the thread alone knows.
    private struct Readings {
        var open: [ConnectionID: Reading] = [:]
        var counts = RequestShareCounts(FileStoreLimits.openFiles)

        mutating func close(_ connection: ConnectionID) {
            guard let reading = open.removeValue(forKey: connection) else { return }
            counts.add(-1, for: reading.reader)
            Glibc.close(reading.descriptor)
        }
    }

    init(_ store: FileStore, address: String, log: LogWriter) {
        self.store = store
        self.address = address
        self.log = log
    }

    // MARK: - From other threads

    /// Takes an event with a file. Returns false if too many wait, of all or of its holder.
    func add(_ call: SourceCall) -> Bool {
        let isTaken = state.withLock { state in
            let byteCount = call.request.content.count
            guard state.byteCounts.admits(byteCount, for: call.holder) else { return false }
            state.byteCounts.add(byteCount, for: call.holder)
            state.calls.append(call)
            return true
        }
        if isTaken { work.notify() }
        return isTaken
    }

    /// Begins to read a file. The pieces come one by one.
    func begin(_ request: StoredFileRequest, for connection: ConnectionID, on loop: UInt8) {
        state.withLock { $0.reads.begun.append((connection, loop, request)) }
        work.notify()
    }

    /// Reads the next piece.
    func continueReading(for connection: ConnectionID, on loop: UInt8) {
        state.withLock { $0.reads.continued.append((connection, loop)) }
        work.notify()
    }

    /// Reads no more for a connection.
    func end(_ connection: ConnectionID) {
        state.withLock { $0.reads.ended.append(connection) }
        work.notify()
    }

    func takeAnswers(for loop: UInt8) -> [Answer] {
        state.withLock { $0.answers.removeValue(forKey: loop) ?? [] }
    }

    /// At this moment.
    var currentCounts: FileCounts {
        var counts = state.withLock(\.counts)
        let amount = store.amount
        counts.expired = store.expiredCount
        counts.removed = store.removedCount
        (counts.fileCount, counts.byteCount) = (amount.fileCount, amount.byteCount)
        return counts
    }

    func fileCount(ofApp app: String) -> Int { store.fileCount(ofApp: app) }

    /// Removes the files of an app whose users may not send any more. When it returns, nobody finds
    /// them; the disk is freed in small steps.
    ///
    /// - Returns: what has failed; nil for nothing.
    func removeFiles(ofApp app: String) -> String? {
        let removal = FileRemoval(app: app)
        let isTaken = state.withLock { state in
            if !state.isStopped { state.removals.append(removal) }
            return !state.isStopped
        }
        work.notify()
        return isTaken
            ? removal.wait(milliseconds: FileStoreLimits.removalMilliseconds)
            : "the broker is stopping"
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        work.stop()
    }

    // MARK: - The thread

    /// Works until ``stop()``.
    func run(_ interfaces: SourceServices, shards: Shards, clock: BrokerClock) {
        var readings = Readings()
        store.begin(seconds: clock.moment().fileSeconds)
        while !state.withLock(\.isStopped) {
            // It returns false when the time is over too.
            _ = work.wait(milliseconds: FileStoreLimits.expiryMilliseconds)
            let now = clock.moment()
            // Readers and senders come between two steps.
            if store.expire(seconds: now.fileSeconds) { work.notify() }
            if store.deleteRemoved() { work.notify() }
            removeFiles()
            let reads = state.withLock { state in
                defer { state.reads = Reads() }
                return state.reads
            }
            for (connection, loop, request) in reads.begun {
                let piece = begin(request, for: connection, &readings, at: now)
                deliver(piece, to: connection, on: loop, shards)
            }
            for (connection, loop) in reads.continued {
                deliver(Self.read(&readings, connection), to: connection, on: loop, shards)
            }
            for connection in reads.ended { readings.close(connection) }
            // One at a time: readers do not wait for those that send.
            if let call = nextCall() {
                keep(call, interfaces, shards: shards, at: now)
                work.notify()
            }
        }
        for connection in Array(readings.open.keys) { readings.close(connection) }
        removeFiles()
    }

    /// Between two files that are kept, so that none of the app comes afterwards.
    private func removeFiles() {
        let removals = state.withLock { state in
            defer { state.removals = [] }
            return state.removals
        }
        for removal in removals {
            do throws(FileStore.Refusal) {
                try store.remove(app: removal.app)
                removal.end(nil)
            } catch {
                removal.end("\(error)")
            }
            work.notify()
        }
    }

    private func nextCall() -> SourceCall? {
        state.withLock { $0.calls.isEmpty ? nil : $0.calls.removeFirst() }
    }

    private func deliver(
        _ piece: StoredFilePiece, to connection: ConnectionID, on loop: UInt8,
        _ shards: Shards
    ) {
        state.withLock { $0.answers[loop, default: []].append((connection, piece)) }
        shards.loopHandles[Int(loop)].wake()
    }

    private func begin(
        _ request: StoredFileRequest, for connection: ConnectionID,
        _ readings: inout Readings, at now: Moment
    ) -> StoredFilePiece {
        let reader = RequestHolder.stranger(address: "\(request.peer.counted)")
        guard readings.counts.admits(1, for: reader) else {
            state.withLock { $0.counts.busy += 1 }
            return .busy
        }
        guard
            let file = store.open(
                request.name, place: request.place, seconds: now.fileSeconds)
        else { return .absent }
        let range = StoredFileRange(request.range, byteCount: file.byteCount)
        let head = range.head(
            type: file.type, byteCount: file.byteCount, unixSeconds: now.unixSeconds,
            cors: request.cors, closes: request.closes)
        let rest = request.isHead ? 0..<0 : range.bytes(of: file.byteCount)
        readings.open[connection] = Reading(
            descriptor: file.descriptor, reader: reader, rest: rest)
        readings.counts.add(1, for: reader)
        state.withLock { $0.counts.served += 1 }
        switch Self.read(&readings, connection) {
        case .bytes(let bytes, let isLast): return .bytes(head + bytes, isLast: isLast)
        case let other: return other
        }
    }

    private static func read(
        _ readings: inout Readings, _ connection: ConnectionID
    ) -> StoredFilePiece {
        guard var reading = readings.open[connection] else { return .failed }
        let count = min(reading.rest.count, FileStoreLimits.pieceByteCount)
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let start = reading.rest.lowerBound + filled
            let read = bytes.withUnsafeMutableBytes {
                pread(reading.descriptor, $0.baseAddress! + filled, count - filled, off_t(start))
            }
            if read < 0, errno == EINTR { continue }
            guard read > 0 else {
                readings.close(connection)
                return .failed
            }
            filled += read
        }
        reading.rest = reading.rest.lowerBound + count..<reading.rest.upperBound
        readings.open[connection] = reading
        guard reading.rest.isEmpty else { return .bytes(bytes, isLast: false) }
        readings.close(connection)
        return .bytes(bytes, isLast: true)
    }

    // MARK: - Files of events

    /// Keeps the file of an event, and lets the event go on with its address.
    private func keep(
        _ call: SourceCall, _ interfaces: SourceServices, shards: Shards,
        at now: Moment
    ) {
        var call = call
        guard case .socketEvent(let form) = call.request.route else {
            preconditionFailure("\(call.request.route) has no file")
        }
        let byteCount = call.request.content.count
        var event: SocketEvent?
        do throws(SourceRefusal) {
            let found = try SocketEvent(call.request.content, form)
            event = found
            if let file = try found.file() {
                let kept = try keep(file, of: call, shards, at: now) { address in
                    found.replacingFile(by: address, form)
                }
                call.request.content = found.replacingFile(by: kept, form)
            }
            guard call.request.content.count <= SocketLimits.messageByteCountMaximum else {
                throw SourceRefusal(413, "the message is too long")
            }
            interfaces.queue.addPrepared(call)
        } catch {
            interfaces.countRefusal(at: .diuit)
            let text = form.refusal(
                code: Int(error.status), error.text, of: event?.name, to: event?.number)
            interfaces.queue.finish(call)
            interfaces.queue.deliver(text, to: call.connection, on: call.loop)
            shards.loopHandles[Int(call.loop)].wake()
        }
        state.withLock { $0.byteCounts.add(-byteCount, for: call.holder) }
    }

    /// Returns the address of the file, which its user may send.
    ///
    /// - Parameter event: the event with an address in place of the file.
    private func keep(
        _ file: SocketFile, of call: SourceCall, _ shards: Shards, at now: Moment,
        in event: (String) -> [UInt8]
    ) throws(SourceRefusal) -> String {
        guard let user = call.request.user else {
            preconditionFailure("an event of \(call.connection) without a user")
        }
        guard let type = StoredFileType(mediaType: file.mediaType) else {
            throw SourceRefusal(415, field: "mime", "is no type of files that are kept")
        }
        guard
            let access = CoreChatAccess(
                renewing: call.credential, shards: shards, unixSeconds: now.unixSeconds)
        else { throw SourceRefusal(403, "the token is not valid any more") }
        try file.check(from: user, by: access)
        let content = try file.content()
        guard content.count <= FileStoreLimits.fileByteCountMaximum else {
            throw SourceRefusal(
                413, field: "data",
                "has more than \(FileStoreLimits.fileByteCountMaximum) bytes")
        }
        let folder = "\(address)/1/files/\(FileStore.place(ofApp: user.app))"
        // Before the file is kept: an event that is refused leaves none. All names of a type have
        // the same length.
        let example = StoredFileName(digest: String(repeating: "0", count: 64), ending: type.ending)
        guard
            event("\(folder)/\(example.text)").count <= SocketLimits.messageByteCountMaximum
        else { throw SourceRefusal(413, "the message is too long") }
        do throws(FileStore.Refusal) {
            let name = try store.put(
                content, type: type, from: user.user, app: user.app, seconds: now.fileSeconds)
            state.withLock { $0.counts.stored += 1 }
            return "\(folder)/\(name.text)"
        } catch {
            noteFailure(error, app: user.app, at: now)
            guard error.faultCode == nil else {
                state.withLock { $0.counts.refused += 1 }
                throw SourceRefusal(500, "the file is not kept: the broker's files have failed")
            }
            var isOverShare = false
            if case .share = error { isOverShare = true }
            state.withLock { state in
                state.counts.refused += 1
                if isOverShare { state.counts.overShare += 1 }
            }
            throw SourceRefusal(
                507,
                isOverShare
                    ? "the file is not kept: your share of the app's files is used"
                    : "the file is not kept: no room")
        }
    }
}

extension FileService {
    /// Logs that the disk of files has no room, or has failed.
    private func noteFailure(_ refusal: FileStore.Refusal, app: String, at now: Moment) {
        guard case .disk(let code) = refusal else { return }
        let isDue = state.withLock { state in
            guard now.instant >= state.nextFailureLine else { return false }
            state.nextFailureLine = now.instant.advanced(
                bySeconds: FileStoreLimits.failureLineSeconds)
            return true
        }
        guard isDue else { return }
        log.write(
            .error, .filesFailed,
            fields: [
                "directory": .text(store.directory), "app": .text(app),
                "detail": .text(String(cString: strerror(code))),
            ])
    }
}

extension Moment {
    /// The time of files, in seconds.
    fileprivate var fileSeconds: UInt64 { instant.milliseconds / 1_000 }
}
