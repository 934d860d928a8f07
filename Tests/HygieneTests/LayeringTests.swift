// The layering as a table: who may import whom, system modules included, which the build does not
// check. Arrows never go up (docs/ARCHITECTURE.md).
import Foundation
import Testing

/// What the files of each target may import. Nothing that touches a message imports Foundation;
/// only targets that do I/O import Glibc.
private let allowedImports: [String: Set<String>] = [
    // Ground and bytes.
    "Primitives": [],
    "BrokerTerms": [],
    "WireFormat": ["BrokerTerms", "Primitives"],
    // Domain and protocol.
    "BrokerCore": ["BrokerTerms", "Primitives"],
    "Replication": ["BrokerCore", "Primitives"],
    "Dialects": ["WireFormat", "BrokerCore", "BrokerTerms", "Primitives"],
    "ClientCore": ["WireFormat", "BrokerTerms", "Primitives"],
    // Edges.
    "Credentials": [
        "BrokerCore", "Primitives", "COpenSSL", "CArgon2", "Glibc", "FoundationEssentials",
    ],
    "QueueStore": [
        "BrokerCore", "Replication", "Primitives", "CLMDB", "Glibc", "Synchronization",
    ],
    "Threads": ["CLinuxShims", "Glibc", "Synchronization"],
    "NetTransport": [
        "BrokerTerms", "Primitives", "WireFormat", "Threads", "CLinuxShims", "COpenSSL",
        "CTLSMemory", "Glibc",
        "Synchronization",
    ],
    "NATSLog": ["Replication", "Threads", "JSON5", "CNATS", "Glibc"],
    "Files": ["Glibc"],
    "JSON5": [],
    "CommandLineOptions": ["Files", "Glibc"],
    "Configuration": ["BrokerTerms", "CommandLineOptions", "Files", "JSON5"],
    "Administration": ["BrokerTerms", "FoundationEssentials", "Glibc"],
    "Dashboard": [],
    "WakeTemplates": ["JSON5"],
    "SourceInterfaces": [
        "Administration", "BrokerTerms", "WireFormat", "FoundationEssentials",
    ],
    // Composition.
    "BrokerRuntime": [
        "BrokerTerms", "Primitives", "WireFormat", "BrokerCore", "Dialects", "Credentials",
        "Replication", "QueueStore", "NetTransport", "Configuration", "Administration",
        "Dashboard", "SourceInterfaces", "WakeTemplates", "Threads", "CLinuxShims",
        "Glibc", "Synchronization",
    ],
    "BrokerSimulation": [
        "BrokerCore", "Replication", "Dialects", "ClientCore", "WireFormat", "BrokerTerms",
        "Primitives",
    ],
    "MartletClient": [
        "ClientCore", "WireFormat", "BrokerTerms", "Primitives", "NetTransport", "Threads",
        "Synchronization",
    ],
    "Gateway": [
        "MartletClient", "ClientCore", "WireFormat", "BrokerTerms", "Primitives", "NetTransport",
        "Threads", "CommandLineOptions", "Glibc",
    ],
    "ClientProgram": [
        "MartletClient", "WireFormat", "NetTransport", "CommandLineOptions", "Files", "JSON5",
    ],
    "Bridge": [
        "ClientProgram", "MartletClient", "ClientCore", "WireFormat", "BrokerTerms", "Primitives",
        "NetTransport", "Threads", "CommandLineOptions", "JSON5", "Glibc", "Synchronization",
    ],
    "Relay": [
        "ClientProgram", "MartletClient", "WireFormat", "BrokerTerms", "Primitives", "Threads",
        "CommandLineOptions", "Files", "JSON5", "CCurl", "COpenSSL", "Glibc",
    ],
    "Webhooks": [
        "Relay", "ClientProgram", "MartletClient", "WireFormat", "BrokerTerms", "Primitives",
        "CommandLineOptions", "JSON5", "Glibc",
    ],
    "Push": [
        "WakeTemplates", "Relay", "ClientProgram", "MartletClient", "WireFormat", "BrokerTerms",
        "Primitives", "NetTransport", "Threads", "CommandLineOptions", "Files", "JSON5", "CCurl",
        "COpenSSL",
        "Glibc",
    ],
    // Programs.
    // With the log of a cluster, where MARTLET_CLUSTER=1 asks for it.
    "martletd": [
        "BrokerRuntime", "Configuration", "CommandLineOptions", "JSON5", "Glibc", "NATSLog",
        "Replication", "Files",
    ],
    "martlet": [
        "MartletClient", "Administration", "Configuration", "Credentials", "WireFormat", "Threads",
        "CommandLineOptions", "Files", "JSON5", "CCurl", "CSQLite", "FoundationEssentials", "Glibc",
    ],
    "martlet-gateway": [
        "Gateway", "Bridge", "Webhooks", "Push", "Relay", "MartletClient", "NetTransport",
        "Threads", "CommandLineOptions", "Files", "Glibc",
    ],
    "martlet-bench": [
        "NetTransport", "WireFormat", "BrokerTerms", "Primitives", "CommandLineOptions", "Files",
        "JSON5", "Threads", "CLinuxShims", "COpenSSL", "CLMDB", "Glibc", "Synchronization",
    ],
    "martlet-micro": [
        "BrokerCore", "QueueStore", "WireFormat", "BrokerTerms", "Primitives", "CLinuxShims",
        "Glibc",
    ],
    "martlet-sim": ["BrokerSimulation", "CommandLineOptions", "Glibc"],
    // Shared by tests, and by the fuzzer.
    "TestSurroundings": ["Foundation"],
    "PacketMeanings": ["WireFormat", "Primitives", "Foundation"],
    "GatewayModel": [
        "Gateway", "MartletClient", "PacketMeanings", "WireFormat", "BrokerTerms", "Primitives",
    ],
    "Fuzzing": [
        "Gateway", "GatewayModel", "PacketMeanings", "WireFormat", "BrokerCore", "Dialects",
        "BrokerSimulation", "Credentials", "Configuration", "QueueStore", "Bridge", "ClientCore",
        "BrokerTerms", "Primitives", "Glibc",
    ],
    "FuzzingEntry": ["Fuzzing", "Glibc"],
]

@Suite struct LayeringTests {
    @Test func `every target imports only what its layer permits`() throws {
        var violations: [String] = []
        for file in try Repository.files(in: ["Sources"], endings: [".swift"]) {
            for (number, line) in file.lines.enumerated() {
                guard let module = importedModule(line) else { continue }
                if allowedImports[file.target]?.contains(module) != true {
                    violations.append("\(file.path):\(number + 1) imports \(module)")
                }
            }
        }
        expectNone(
            violations,
            remedy: "Move the code to a layer that may know this module, or hand the value in from "
                + "above. A new arrow is a decision: it needs a reason in docs/ARCHITECTURE.md and "
                + "a row in this table.")
    }

    @Test func `the table names exactly the Swift targets of Package.swift`() throws {
        let declared = try declaredTargets(kinds: ["target", "executableTarget"])
        let swiftTargets = declared.subtracting([
            "CLinuxShims", "CTLSMemory", "CMallocCount", "CDiskFaults", "CMemoryLeak",
        ])
        let difference = swiftTargets.symmetricDifference(allowedImports.keys)
        expectNone(
            difference.sorted(), remedy: "Give each target of Package.swift a row in this table.")
    }

    @Test func `every source belongs to a declared target`() throws {
        let declared = try declaredTargets(
            kinds: ["target", "executableTarget", "systemLibrary", "testTarget"])
        let files = try Repository.files(in: ["Sources", "Tests"], endings: [".swift", ".c"])
        // Programs for other people's libraries, which the end-to-end tests compile or interpret.
        let strays = files.filter {
            !declared.contains($0.target) && $0.target != "RealClients"
        }.map(\.path)
        expectNone(strays, remedy: "Declare the folder in Package.swift, or move the file.")
    }

    @Test func `no type bears its module's name`() throws {
        let modules = Set(allowedImports.keys)
        let pattern = /\b(?:struct|class|enum|actor|protocol|typealias)\s+(\w+)/
        var violations: [String] = []
        for file in try Repository.files(in: ["Sources"], endings: [".swift"]) {
            for (number, line) in file.lines.enumerated() where !isComment(line) {
                for match in line.matches(of: pattern) {
                    // Within its own module at any depth, elsewhere where everybody sees it.
                    let name = String(match.1)
                    let isNested = line.hasPrefix(" ")
                    guard name == file.target || !isNested && modules.contains(name) else {
                        continue
                    }
                    violations.append("\(file.path):\(number + 1) declares \(match.1)")
                }
            }
        }
        expectNone(
            violations,
            remedy: "Rename the type: Module.Name cannot be written where a type hides its module.")
    }

    @Test func `the parser of imports knows every form`() {
        #expect(importedModule("import Glibc") == "Glibc")
        #expect(importedModule("@testable import Credentials") == "Credentials")
        #expect(importedModule("public import Primitives") == "Primitives")
        #expect(importedModule("@preconcurrency internal import Foundation") == "Foundation")
        #expect(importedModule("import struct Foundation.Data") == "Foundation")
        #expect(importedModule("@_exported import Primitives // why") == "Primitives")
        #expect(importedModule("// import Glibc") == nil)
        #expect(importedModule("let important = 1") == nil)
    }

    /// The module that a line imports, if it is an import.
    private func importedModule(_ line: some StringProtocol) -> String? {
        guard line.contains("import") else { return nil }
        let attributes = #"(?:@\w+(?:\([^)]*\))?\s+)*"#
        let access = #"(?:(?:public|package|internal|fileprivate|private)\s+)?"#
        let kind = #"(?:(?:struct|class|enum|protocol|typealias|func|var|let)\s+)?"#
        let pattern = try? Regex(#"^\s*\#(attributes)\#(access)import\s+\#(kind)(\w+)"#)
        guard let pattern, let match = String(line).firstMatch(of: pattern) else { return nil }
        return match.output[1].substring.map(String.init)
    }

    private func isComment(_ line: Substring) -> Bool {
        line.drop { $0 == " " }.hasPrefix("//")
    }

    /// Names of the targets that Package.swift declares.
    private func declaredTargets(kinds: Set<String>) throws -> Set<String> {
        let manifest = try Repository.file("Package.swift").lines.joined(separator: "\n")
        let pattern = /\.(\w+)\(\s*name:\s*"([^"]+)"/
        let names = manifest.matches(of: pattern).filter { kinds.contains(String($0.1)) }
        return Set(names.map { String($0.2) })
    }
}
