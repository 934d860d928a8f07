// When a record is written anew: when most of it is obsolete, and when the disk is full. A disk
// that the record itself has filled must not stop the relay for ever.

/// The state that a record describes.
package protocol RecordSource {
    associatedtype Entry: RecordedEntry

    /// The shortest record of the present state, with all that is not written yet.
    var snapshot: [Entry] { get }
    /// The same without what a full disk may take; nil if it may take nothing.
    var shortSnapshot: [Entry]? { get }
    /// Bytes of what no full disk may take, about.
    var liveByteCount: Int { get }
    /// What the record needs if the broker has everything else of value yet; nil otherwise.
    var emptyRecord: [Entry]? { get }
    /// The record has ``snapshot`` or ``shortSnapshot``.
    mutating func rewritten()
    /// The record has ``emptyRecord`` only; the next write has the rest.
    mutating func emptied()
}

extension RecordSource {
    package var shortSnapshot: [Entry]? { nil }
}

extension RecordFile {
    /// Writes the record anew, if most of it is obsolete.
    package mutating func compact<Source: RecordSource>(
        from source: inout Source
    ) throws(RecordFailure) where Source.Entry == Content.Entry {
        guard byteCount > 2 * renewedByteCount + RelayLimits.recordSlackByteCount else { return }
        try renew(from: &source)
    }

    /// Writes the record anew. Where there is no room for that it stays as it is.
    package mutating func renew<Source: RecordSource>(
        from source: inout Source
    ) throws(RecordFailure) where Source.Entry == Content.Entry {
        if try hasRoom(for: source.snapshot) { source.rewritten() }
        renewedByteCount = byteCount
    }

    /// Makes room on a full disk, if at least half of the record is obsolete.
    ///
    /// - Returns: false if there is none.
    package mutating func makeRoom<Source: RecordSource>(
        for source: inout Source
    ) throws(RecordFailure) -> Bool where Source.Entry == Content.Entry {
        guard byteCount > 2 * source.liveByteCount else { return false }
        var isRewritten = try hasRoom(for: source.snapshot)
        if !isRewritten, let entries = source.shortSnapshot {
            isRewritten = try hasRoom(for: entries)
        }
        if isRewritten {
            source.rewritten()
            return true
        }
        // There is no room for a second file; this one may be cut.
        guard let entries = source.emptyRecord else { return false }
        let emptyByteCount = entries.reduce(Content.Entry.magic.count) { $0 + $1.encoded.count }
        guard byteCount > 2 * emptyByteCount else { return false }
        source.emptied()
        do throws(RecordFailure) {
            try restart(with: entries)
            return true
        } catch {
            guard case .noRoom = error else { throw error }
            return false
        }
    }

    /// Replaces the file.
    ///
    /// - Returns: false if there is no room for a second one.
    private mutating func hasRoom(for entries: [Content.Entry]) throws(RecordFailure) -> Bool {
        do throws(RecordFailure) {
            try replace(with: entries)
            return true
        } catch {
            guard case .noRoom = error else { throw error }
            return false
        }
    }
}
