// The media types of files that clients may send. A type that a browser executes is none of them.

/// A media type and the ending of its files' names.
struct StoredFileType: Sendable {
    let mediaType: StaticString
    let ending: String

    /// All types. An ending names one of them.
    static let all: [StoredFileType] = [
        .init("image/jpeg", "jpg"), .init("image/png", "png"), .init("image/gif", "gif"),
        .init("image/webp", "webp"), .init("image/heic", "heic"), .init("audio/mpeg", "mp3"),
        .init("audio/mp4", "m4a"), .init("audio/aac", "aac"), .init("audio/ogg", "ogg"),
        .init("audio/wav", "wav"), .init("audio/amr", "amr"), .init("video/mp4", "mp4"),
        .init("video/3gpp", "3gp"), .init("video/quicktime", "mov"), .init("video/webm", "webm"),
        .init("text/plain", "txt"), .init("text/csv", "csv"), .init("application/json", "json"),
        .init("application/pdf", "pdf"), .init("application/zip", "zip"),
        .init("application/octet-stream", "bin"),
    ]

    private init(_ mediaType: StaticString, _ ending: String) {
        self.mediaType = mediaType
        self.ending = ending
    }

    init?(mediaType: String) {
        guard let found = Self.all.first(where: { "\($0.mediaType)" == mediaType }) else {
            return nil
        }
        self = found
    }

    init?(ending: String) {
        guard let found = Self.all.first(where: { $0.ending == ending }) else { return nil }
        self = found
    }
}

/// The name of a file: 64 hexadecimal digits of a digest, and the ending of its type. Nothing else
/// from outside becomes a part of a path.
struct StoredFileName: Hashable, Sendable {
    let digest: String
    let ending: String

    var text: String { "\(digest).\(ending)" }

    init(digest: String, ending: String) {
        self.digest = digest
        self.ending = ending
    }

    /// Nil for what is no such name.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count == 64, parts[0].utf8.allSatisfy(Self.isDigit),
            StoredFileType(ending: String(parts[1])) != nil
        else { return nil }
        self.init(digest: String(parts[0]), ending: String(parts[1]))
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
    }
}
