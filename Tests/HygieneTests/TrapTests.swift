// docs/TRAPS.md against the code: every place between a socket and the core where the broker could
// stop has a row that says why no bytes get there.

import Foundation
import Testing

@Suite struct TrapTests {
    /// Modules on the way of a packet, and in the composition the files that it passes.
    private static let modules = [
        "WireFormat", "Dialects", "BrokerCore", "BrokerRuntime", "Credentials", "NetTransport",
        "BrokerTerms", "Primitives", "SourceInterfaces",
    ]
    private static let runtimeFiles: Set<String> = [
        "BrokerLoopHandler", "ConnectionLog", "BrokerLoop", "SharedBroker", "CredentialVerifier",
        "ClientTrust",
        "RateLimiter", "ClientRates", "BrokerClock", "WebConnections", "WebConnections+Routes",
        "WebListeners", "WebServices", "BrokerHealth", "MetricsPage", "WebConnections+API",
        "WebConnections+Streams", "WebRequest", "WebAction", "WebOrigin", "HTTPResponse+Contents",
        "APIQueue", "AwaitedAnswers", "IdempotencyKey", "OperatorFile", "Operators",
        "SourceQueue",
        "WebConnections+Interfaces", "AdministrationService+Interfaces", "UserPasswords",
        "SourceSocket", "SourceSockets", "BrokerLoopHandler+Sockets", "LoginNonces",
        "FileStore", "FileService", "StoredFileRange", "StoredFileType",
        "WebConnections+Files", "Shards", "ShardMap", "LoopShards",
    ]

    @Test func `each trap that a packet could reach has its reason`() throws {
        let told = try Self.toldCounts()
        var found: [String: String] = [:]
        for module in Self.modules {
            for file in try Repository.files(in: ["Sources/\(module)"], endings: [".swift"]) {
                let name = String(
                    file.path.split(separator: "/").last!.dropLast(".swift".count))
                if module == "BrokerRuntime", !Self.runtimeFiles.contains(name) { continue }
                let counts = file.lines.reduce(into: (stops: 0, narrows: 0)) { sum, line in
                    let code = Self.code(of: line)
                    sum.stops += Self.stops(in: code)
                    sum.narrows += code.matches(of: Self.narrowing).count
                }
                guard counts.stops + counts.narrows > 0 else { continue }
                found["\(module)/\(name)"] = "\(counts.stops) | \(counts.narrows)"
            }
        }
        expectNone(
            Set(found.keys).union(told.keys).sorted().filter { found[$0] != told[$0] }.map {
                "\($0): the code has \(found[$0] ?? "none"), the page \(told[$0] ?? "no row")"
            },
            remedy: "Find out why no bytes of a peer reach the new place, make it a refusal if "
                + "they do, and say so in its row of docs/TRAPS.md.")
    }

    /// What the page says, by module and file.
    private static func toldCounts() throws -> [String: String] {
        var told: [String: String] = [:]
        var module = ""
        for line in try Repository.file("docs/TRAPS.md").lines {
            if line.hasPrefix("## ") { module = String(line.dropFirst(3)) }
            guard line.hasPrefix("| `") else { continue }
            let cells = line.split(separator: "|").map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            told["\(module)/\(cells[0].dropFirst().dropLast())"] = "\(cells[1]) | \(cells[2])"
            #expect(cells.count == 4 && cells[3].count > 3, "no reason: \(line)")
        }
        return told
    }

    /// A line without its comment and without what stands in texts; nothing of a line without a
    /// trap, because a debug build takes milliseconds to match a pattern.
    private static func code(of line: Substring) -> String {
        let mayTrap =
            line.utf8.contains(UInt8(ascii: "!")) || line.contains("Int")
            || line.contains("precondition") || line.contains("fatalError")
        guard mayTrap, !line.drop(while: { $0 == " " }).hasPrefix("//") else { return "" }
        let code = line.firstRange(of: "//").map { line[..<$0.lowerBound] } ?? line
        return String(code).replacing(/"(?:[^"\\]|\\.)*"/, with: "\"\"")
    }

    private static func stops(in code: String) -> Int {
        code.matches(of: /(?:precondition|preconditionFailure|fatalError)\(/).count
            + code.matches(of: /[A-Za-z0-9_\)\]]!(?!=)/).count
    }

    private static var narrowing: Regex<Substring> {
        #/
            \b(?:UInt8|UInt16|UInt32|Int8|Int16|Int32)\(
            (?!truncatingIfNeeded|clamping|exactly|rawValue|ascii|bitPattern)
            (?!littleEndian|bigEndian)
        /#.wordBoundaryKind(.simple)
    }
}
