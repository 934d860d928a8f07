// The log writer on a real pipe: it never blocks, and it reports lost lines.
import Configuration
import Glibc
import Testing

@testable import BrokerRuntime

/// A pipe, read without waiting.
private final class Pipe {
    let reader: Int32
    let writer: Int32

    init() {
        var ends: [Int32] = [0, 0]
        precondition(pipe(&ends) == 0)
        (reader, writer) = (ends[0], ends[1])
        _ = fcntl(reader, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(reader)
        close(writer)
    }

    /// Everything that is in the pipe.
    func drain() -> [String] {
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(reader, &chunk, chunk.count), count > 0 {
            text += chunk[..<count]
        }
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

@Suite struct LogWriterTests {
    private let pipe = Pipe()

    @Test func `a condition of the broker is logged when it begins and when it ends`() {
        let log = LogWriter(descriptor: pipe.writer, isJournal: true)
        var conditions = ConditionLog()
        conditions.noteStore(isFull: false, because: .store, of: nil, in: log)
        conditions.noteLosses(dropped: 0, acceptPauses: 0, in: log)
        #expect(pipe.drain() == [])
        for _ in 0..<3 {
            conditions.noteStore(isFull: true, because: .store, of: nil, in: log)
        }
        conditions.noteStore(isFull: false, because: .store, of: nil, in: log)
        conditions.noteStore(isFull: true, because: .diskSpace, of: nil, in: log)
        conditions.noteStore(isFull: false, because: .diskSpace, of: nil, in: log)
        conditions.noteLosses(dropped: 5, acceptPauses: 0, in: log)
        conditions.noteLosses(dropped: 5, acceptPauses: 2, in: log)
        conditions.noteLosses(dropped: 9, acceptPauses: 2, in: log)
        #expect(
            pipe.drain() == [
                "<3>level=error event=store_full state=full detail=store.softLimitBytes",
                "<6>level=info event=store_full state=has-room",
                "<3>level=error event=store_full state=full "
                    + "detail=\"free space on the disk of the data directory\"",
                "<6>level=info event=store_full state=has-room",
                "<4>level=warning event=queue_full dropped=5",
                "<4>level=warning event=accept_paused pauses=2",
                "<4>level=warning event=queue_full dropped=4",
            ])
    }

    @Test func `levels below the chosen one are not written until it changes`() {
        let log = LogWriter(descriptor: pipe.writer, level: .warning, isJournal: true)
        log.write(.info, .listening)
        log.write(.error, .storeFailed)
        #expect(pipe.drain() == ["<3>level=error event=store_failed"])
        log.change(level: .debug, format: .json)
        #expect(log.writes(.debug))
        log.write(.debug, .listening, fields: ["port": 1883])
        #expect(pipe.drain() == [#"<7>{"level":"debug","event":"listening","port":1883}"#])
    }

    @Test func `a full pipe drops lines without blocking, and the drop is logged`() {
        let log = LogWriter(descriptor: pipe.writer, isJournal: true)
        var filler = [UInt8](repeating: UInt8(ascii: "\n"), count: 4096)
        let flags = fcntl(pipe.writer, F_GETFL)
        _ = fcntl(pipe.writer, F_SETFL, flags | O_NONBLOCK)
        while write(pipe.writer, &filler, filler.count) > 0 {}
        _ = fcntl(pipe.writer, F_SETFL, flags)

        log.write(.info, .listening, fields: ["port": 1])
        log.write(.info, .listening, fields: ["port": 2])
        #expect(pipe.drain().isEmpty)
        log.write(.info, .listening, fields: ["port": 3])
        #expect(
            pipe.drain() == [
                "<4>level=warning event=lines_dropped dropped=2",
                "<6>level=info event=listening port=3",
            ])
    }

    @Test func `lines of several threads are not interleaved`() async {
        let log = LogWriter(descriptor: pipe.writer, isJournal: true)
        await withTaskGroup(of: Void.self) { group in
            for event in [
                LogEventName.clientConnected, .clientDisconnected, .sendRefused, .listening,
            ] {
                group.addTask {
                    for _ in 0..<10 { log.write(.info, event, fields: ["filler": "0123456789"]) }
                }
            }
        }
        let lines = pipe.drain()
        #expect(lines.count == 40)
        #expect(lines.allSatisfy { $0.hasPrefix("<6>level=info") && $0.hasSuffix("0123456789") })
    }
}
