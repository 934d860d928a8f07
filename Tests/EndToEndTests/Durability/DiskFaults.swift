// A failing disk: the library that is preloaded into the broker (Tests/CDiskFaults), its record of
// writes, and what a disk may contain after a loss of power.

import Foundation
import TestSurroundings

/// What the disk of a broker's life does. Its files are gone with it.
final class DiskFaults: Sendable {
    private let files: TemporaryDirectory
    /// The process ends at this call that writes or syncs; 0 for none.
    let killAt: Int
    let isLogging: Bool

    init(isLogging: Bool = false, killAt: Int = 0) throws {
        files = try TemporaryDirectory("disk")
        self.isLogging = isLogging
        self.killAt = killAt
    }

    private var logPath: String { files.file("log") }
    private var fullPath: String { files.file("full") }
    private var slowPath: String { files.file("slow") }

    /// For the broker's process.
    var environment: [String: String] {
        var variables = [
            "LD_PRELOAD": ChildProcess.programs.appending(path: "libDiskFaults.so").path,
            "DISK_FAULTS_FULL": fullPath, "DISK_FAULTS_SLOW": slowPath,
        ]
        if isLogging { variables["DISK_FAULTS_LOG"] = logPath }
        if killAt > 0 { variables["DISK_FAULTS_KILL_AT"] = "\(killAt)" }
        return variables
    }

    /// Whether the disk has no space left.
    func setFull(_ isFull: Bool) { set(fullPath, isFull) }

    /// Whether syncs last until this is false again. A process that waits for the core meanwhile
    /// waits too.
    func setSlow(_ isSlow: Bool) { set(slowPath, isSlow) }

    private func set(_ path: String, _ isThere: Bool) {
        if isThere {
            _ = FileManager.default.createFile(atPath: path, contents: nil)
        } else {
            try? FileManager.default.removeItem(atPath: path)
        }
    }

    /// Bytes that have been written down so far.
    func logByteCount() -> Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: logPath)
        return (attributes?[.size] as? Int) ?? 0
    }

    func log() throws -> DiskLog {
        DiskLog([UInt8](try Data(contentsOf: URL(filePath: logPath))))
    }
}

/// The calls of a broker's life, in order.
struct DiskLog {
    enum Kind: UInt32 {
        case write = 1
        case durableWrite = 2
        case synced = 3
        case writtenDurably = 4
        case truncate = 5
        case renamed = 6
        case namesSynced = 7
    }

    struct Record {
        var kind: Kind
        var offset: Int
        var bytes: ArraySlice<UInt8>
        /// Where it ends in the log.
        var end: Int
    }

    let records: [Record]

    init(_ bytes: [UInt8]) {
        var records: [Record] = []
        var position = 0
        bytes.withUnsafeBytes { raw in
            func number(_ at: Int) -> Int {
                Int(UInt32(littleEndian: raw.loadUnaligned(fromByteOffset: at, as: UInt32.self)))
            }
            // A record that the end of the process cut off did not happen.
            while position + 16 <= bytes.count, position + 16 + number(position + 4) <= bytes.count
            {
                let start = position + 16
                let end = start + number(position + 4)
                records.append(
                    Record(
                        kind: Kind(rawValue: UInt32(number(position)))!,
                        offset: number(position + 8) | number(position + 12) << 32,
                        bytes: bytes[start..<end], end: end))
                position = end
            }
        }
        self.records = records
    }
}

/// What the disk holds of a store: its file, and the staging of one.
struct DiskContent {
    var data: [UInt8]?
    var staging: [UInt8]?

    /// Puts it in the place of what a directory has; nobody may have that open.
    func write(to directory: String) throws {
        let folder = "\(directory)/new"
        for path in ["\(directory)/data.mdb", "\(directory)/lock.mdb", folder] {
            try? FileManager.default.removeItem(atPath: path)
        }
        if let data { try Data(data).write(to: URL(filePath: directory + "/data.mdb")) }
        guard let staging else { return }
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
        try Data(staging).write(to: URL(filePath: folder + "/data.mdb"))
    }
}

/// A disk with a cache that the power keeps.
struct CachedDisk {
    /// Under which name the file can be found again.
    private enum Name {
        case staging
        /// Either: the directory is not synced.
        case renamed
        case data
    }

    /// What is on the disk whatever happens.
    private var durable: [UInt8] = []
    /// What the process has written since.
    private var cached: [DiskLog.Record] = []
    private var name = Name.staging

    private static let sectorByteCount = 512

    mutating func carryOut(_ record: DiskLog.Record) {
        switch record.kind {
        case .write, .durableWrite: cached.append(record)
        case .synced:
            for write in cached { Self.put(write.bytes, at: write.offset, in: &durable) }
            cached = []
        case .writtenDurably:
            guard
                let index = cached.lastIndex(where: {
                    $0.kind == .durableWrite && $0.offset == record.offset
                })
            else { return }
            let write = cached.remove(at: index)
            Self.put(write.bytes, at: write.offset, in: &durable)
        case .truncate:
            if record.offset < durable.count { durable.removeLast(durable.count - record.offset) }
        case .renamed: name = .renamed
        case .namesSynced: if name == .renamed { name = .data }
        }
    }

    /// What the disk holds after the power has gone.
    func withoutPower(_ random: inout some RandomNumberGenerator) -> DiskContent {
        let bytes = bytesWithoutPower(&random)
        let isNamed =
            switch name {
            case .staging: false
            case .renamed: Bool.random(using: &random)
            case .data: true
            }
        if isNamed { return DiskContent(data: bytes) }
        // Nobody has synced the staging's own name.
        return DiskContent(staging: Bool.random(using: &random) ? bytes : nil)
    }

    /// The file's bytes: of what was not synced, nothing, all, some writes in any order, or some
    /// sectors of some writes.
    private func bytesWithoutPower(_ random: inout some RandomNumberGenerator) -> [UInt8] {
        var image = durable
        let way = Int.random(in: 0..<4, using: &random)
        switch way {
        case 0: break
        case 1: for write in cached { Self.put(write.bytes, at: write.offset, in: &image) }
        default:
            let share = Double.random(in: 0...1, using: &random)
            for write in cached.shuffled(using: &random) {
                guard way == 3 else {
                    if Double.random(in: 0...1, using: &random) < share {
                        Self.put(write.bytes, at: write.offset, in: &image)
                    }
                    continue
                }
                var rest = write.bytes
                var offset = write.offset
                while !rest.isEmpty {
                    // Sectors are those of the disk, not of the write.
                    let count = min(
                        rest.count, Self.sectorByteCount - offset % Self.sectorByteCount)
                    if Double.random(in: 0...1, using: &random) < share {
                        Self.put(rest.prefix(count), at: offset, in: &image)
                    }
                    rest = rest.dropFirst(count)
                    offset += count
                }
            }
        }
        return image
    }

    private static func put(_ bytes: ArraySlice<UInt8>, at offset: Int, in image: inout [UInt8]) {
        let end = offset + bytes.count
        if image.count < end {
            image.append(contentsOf: repeatElement(0, count: end - image.count))
        }
        image.replaceSubrange(offset..<end, with: bytes)
    }
}
