// A whole broker in the test's process: a new data directory, sockets on 127.0.0.1, a log that a
// test can wait for, and the administration socket.
import Administration
import Configuration
import Glibc
import TestSurroundings
import Testing

@testable import BrokerRuntime

/// A broker for one test. Stops when it is released.
final class RunningBroker {
    let directory: String
    private(set) var settings: BrokerSettings
    let log: LogPipe
    private(set) var server: BrokerServer
    /// Ports of the listeners, in the order of the settings.
    private(set) var ports: [UInt16] = []

    /// Starts a broker with one plain listener, or those that `change` puts into the settings.
    init(_ change: (inout BrokerSettings) -> Void = { _ in }) throws {
        directory = try TemporaryDirectory.make("runtime")
        settings = BrokerSettings()
        settings.dataDirectory = directory + "/data"
        settings.listeners = [.loopback(.tcp)]
        settings.store.mapBytes = 64 << 20
        settings.store.softLimitBytes = 16 << 20
        change(&settings)
        log = LogPipe()
        server = try BrokerServer(
            settings, version: "test", log: log.writer,
            fail: { preconditionFailure("the broker cannot continue: \($0)") })
        server.open()
        try readPorts()
    }

    deinit {
        server.stop()
        _ = runShell("rm -rf '\(directory)'")
    }

    var port: UInt16 { ports[0] }

    /// Stops the broker and starts another on the same data.
    ///
    /// - Parameter between: called while none runs.
    func restart(
        _ change: (inout BrokerSettings) -> Void = { _ in }, between: () throws -> Void = {}
    ) throws {
        server.stop()
        try between()
        change(&settings)
        server = try BrokerServer(
            settings, version: "test", log: log.writer,
            fail: { preconditionFailure("the broker cannot continue: \($0)") })
        server.open()
        ports = []
        try readPorts()
    }

    func administrator() throws -> AdministrationClient {
        try AdministrationClient(dataDirectory: settings.dataDirectory)
    }

    /// Makes an app; its key.
    @discardableResult
    func makeApp(_ name: String = "demo") throws -> String {
        try administrator().send(CreateApp(app: name)).key
    }

    /// Makes a token for each user.
    func makeTokens(_ users: String..., app: String = "demo") throws -> [String] {
        try administrator().send(MintTokens(app: app, users: users)).tokens.map(\.token)
    }

    private func readPorts() throws {
        for _ in settings.listeners {
            let line = try #require(log.line { $0.contains("event=listening") })
            let address = try #require(LogPipe.value("address", in: line))
            ports.append(try #require(UInt16(address.split(separator: ":").last!)))
        }
    }
}

extension ListenerSettings {
    /// 127.0.0.1 and a port of the system's choice.
    static func loopback(_ transport: Transport) -> ListenerSettings {
        ListenerSettings(transport: transport, host: .address("127.0.0.1"), port: 0)
    }
}

/// A log whose lines a test can wait for.
final class LogPipe {
    let writer: LogWriter
    private let reader: Int32
    private let writingEnd: Int32
    private var text: [UInt8] = []
    /// Lines that were read while another was waited for.
    private(set) var seen: [String] = []

    init(level: LogLevel = .debug) {
        var ends: [Int32] = [0, 0]
        precondition(pipe(&ends) == 0)
        (reader, writingEnd) = (ends[0], ends[1])
        writer = LogWriter(descriptor: writingEnd, level: level, isJournal: true)
    }

    deinit {
        close(reader)
        close(writingEnd)
    }

    /// The next line for which `isWanted` holds; nil when none comes for 90 seconds. Lines
    /// before it are kept in ``seen``.
    func line(where isWanted: (String) -> Bool) -> String? {
        while let line = nextLine() {
            seen.append(line)
            if isWanted(line) { return line }
        }
        return nil
    }

    /// The value of a field of a logfmt line, without its quotes.
    static func value(_ key: String, in line: String) -> String? {
        let fields = line.split(separator: " ")
        let field = fields.first { $0.hasPrefix("\(key)=") }
        return field.map { $0.dropFirst(key.count + 1).filter { $0 != "\"" } }
    }

    private func nextLine() -> String? {
        while true {
            if let feed = text.firstIndex(of: UInt8(ascii: "\n")) {
                defer { text.removeSubrange(...feed) }
                return String(decoding: text[..<feed], as: UTF8.self)
            }
            var request = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
            guard poll(&request, 1, 90_000) == 1 else { return nil }
            var chunk = [UInt8](repeating: 0, count: 65_536)
            text += chunk[..<max(0, read(reader, &chunk, chunk.count))]
        }
    }
}
