// swift-tools-version: 6.2
// The targets are the architecture: docs/ARCHITECTURE.md draws them, and arrows never go up.
import PackageDescription

/// Settings of the targets on the path of a message. Cross-module optimisation lets the loop inline
/// the codecs and the core; without it each delivery pays for calls across module borders
/// (docs/PERFORMANCE.md).
let hot: [SwiftSetting] = [
    .unsafeFlags(["-cross-module-optimization"], .when(configuration: .release))
]

/// For functions and types that return or hold a `RawSpan`: `@_lifetime` says whose bytes it views
/// (docs/decisions/0005-byte-views.md).
let spans: [SwiftSetting] = [.enableExperimentalFeature("Lifetimes")]

let package = Package(
    name: "martlet",
    products: [
        .executable(name: "martletd", targets: ["martletd"]),
        .executable(name: "martlet", targets: ["martlet"]),
        .executable(name: "martlet-gateway", targets: ["martlet-gateway"]),
        .executable(name: "martlet-bench", targets: ["martlet-bench"]),
        .executable(name: "martlet-sim", targets: ["martlet-sim"]),
        .library(name: "MartletClient", targets: ["MartletClient"]),
        // Preloaded into a broker whose allocations are counted; nobody links it.
        .library(name: "MallocCount", type: .dynamic, targets: ["CMallocCount"]),
        .library(name: "DiskFaults", type: .dynamic, targets: ["CDiskFaults"]),
        .library(name: "MemoryLeak", type: .dynamic, targets: ["CMemoryLeak"]),
    ],
    targets: [
        // System libraries and C shims.
        .systemLibrary(name: "CLMDB", pkgConfig: "lmdb", providers: [.apt(["liblmdb-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CArgon2", pkgConfig: "libargon2", providers: [.apt(["libargon2-dev"])]),
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .target(name: "CLinuxShims"),
        .target(name: "CTLSMemory"),
        .target(name: "CMallocCount", path: "Bench/CMallocCount"),
        .target(name: "CDiskFaults", path: "Tests/CDiskFaults"),
        .target(name: "CMemoryLeak", path: "Tests/CMemoryLeak"),

        // Ground and bytes: the standard library only.
        .target(name: "Primitives", swiftSettings: hot + spans),
        .target(name: "BrokerTerms", swiftSettings: hot),
        .target(
            name: "WireFormat", dependencies: ["BrokerTerms", "Primitives"],
            swiftSettings: hot + spans),

        // Domain and protocol: no I/O, no clock.
        .target(
            name: "BrokerCore", dependencies: ["BrokerTerms", "Primitives"], swiftSettings: hot),
        .target(
            name: "Replication", dependencies: ["BrokerCore", "Primitives"], swiftSettings: hot),
        .target(
            name: "Dialects",
            dependencies: ["WireFormat", "BrokerCore", "BrokerTerms", "Primitives"],
            swiftSettings: hot),
        .target(
            name: "ClientCore", dependencies: ["WireFormat", "BrokerTerms", "Primitives"],
            swiftSettings: hot),

        // Edges.
        .target(name: "Threads", dependencies: ["CLinuxShims"], swiftSettings: hot),
        .target(
            name: "Credentials", dependencies: ["BrokerCore", "Primitives", "COpenSSL", "CArgon2"]),
        .target(
            name: "QueueStore",
            dependencies: ["BrokerCore", "Replication", "Primitives", "CLMDB"],
            swiftSettings: hot),
        .target(
            name: "NetTransport",
            dependencies: [
                "BrokerTerms", "Primitives", "WireFormat", "Threads", "CLinuxShims", "COpenSSL",
                "CTLSMemory",
            ],
            swiftSettings: hot),
        .target(name: "Files"),
        .target(name: "JSON5"),
        .target(name: "CommandLineOptions", dependencies: ["Files"]),
        .target(
            name: "Configuration",
            dependencies: ["BrokerTerms", "CommandLineOptions", "Files", "JSON5"]),
        .target(name: "Administration", dependencies: ["BrokerTerms"]),
        .target(name: "WakeTemplates", dependencies: ["JSON5"]),
        .target(
            name: "SourceInterfaces",
            dependencies: ["Administration", "BrokerTerms", "WireFormat"], swiftSettings: spans),
        .target(
            name: "Dashboard",
            resources: [
                .embedInCode("Page/index.html"),
                .embedInCode("Page/dashboard.css"),
                .embedInCode("Page/api.js"),
                .embedInCode("Page/broker.js"),
                .embedInCode("Page/cluster.js"),
                .embedInCode("Page/content.js"),
                .embedInCode("Page/conversations.js"),
                .embedInCode("Page/credentials.js"),
                .embedInCode("Page/dashboard.js"),
                .embedInCode("Page/devices.js"),
                .embedInCode("Page/elements.js"),
                .embedInCode("Page/messages.js"),
                .embedInCode("Page/navigation.js"),
                .embedInCode("Page/overview.js"),
                .embedInCode("Page/receipts.js"),
                .embedInCode("Page/templates.js"),
                .embedInCode("Page/users.js"),
            ]),

        // Composition.
        .target(
            name: "BrokerRuntime",
            dependencies: [
                "BrokerTerms", "Primitives", "WireFormat", "BrokerCore", "Dialects", "Credentials",
                "Replication", "QueueStore", "NetTransport", "Configuration", "Administration",
                "Dashboard", "SourceInterfaces", "WakeTemplates", "Threads", "CLinuxShims",
            ],
            swiftSettings: hot + spans),
        .target(
            name: "BrokerSimulation",
            dependencies: [
                "BrokerCore", "Replication", "Dialects", "ClientCore", "WireFormat", "BrokerTerms",
                "Primitives",
            ],
            swiftSettings: hot),
        .target(
            name: "MartletClient",
            dependencies: [
                "ClientCore", "WireFormat", "BrokerTerms", "Primitives", "NetTransport", "Threads",
            ]),
        .target(
            name: "Gateway",
            dependencies: [
                "MartletClient", "ClientCore", "WireFormat", "BrokerTerms", "Primitives",
                "NetTransport", "Threads", "CommandLineOptions",
            ]),
        .target(
            name: "ClientProgram",
            dependencies: [
                "MartletClient", "WireFormat", "NetTransport", "CommandLineOptions", "Files",
                "JSON5",
            ]),
        .target(
            name: "Bridge",
            dependencies: [
                "ClientProgram", "MartletClient", "ClientCore", "WireFormat", "BrokerTerms",
                "Primitives", "NetTransport", "Threads", "CommandLineOptions", "JSON5",
            ]),
        .target(
            name: "Relay",
            dependencies: [
                "ClientProgram", "MartletClient", "WireFormat", "BrokerTerms", "Primitives",
                "Threads", "CommandLineOptions", "Files", "JSON5", "CCurl", "COpenSSL",
            ]),
        .target(
            name: "Webhooks",
            dependencies: [
                "Relay", "ClientProgram", "MartletClient", "WireFormat", "BrokerTerms",
                "Primitives", "CommandLineOptions", "JSON5",
            ]),
        .target(
            name: "Push",
            dependencies: [
                "WakeTemplates", "Relay", "ClientProgram", "MartletClient", "WireFormat",
                "BrokerTerms", "Primitives", "NetTransport", "Threads", "CommandLineOptions",
                "Files", "JSON5", "CCurl", "COpenSSL",
            ]),

        // Programs.
        .executableTarget(
            name: "martletd",
            dependencies: ["BrokerRuntime", "Configuration", "CommandLineOptions", "JSON5"]
        ),
        .executableTarget(
            name: "martlet",
            dependencies: [
                "MartletClient", "Administration", "Configuration", "Credentials", "WireFormat",
                "Threads", "CommandLineOptions", "Files", "JSON5", "CCurl", "CSQLite",
            ]),
        .executableTarget(
            name: "martlet-gateway",
            dependencies: [
                "Gateway", "Bridge", "Webhooks", "Push", "Relay", "MartletClient", "NetTransport",
                "Threads", "CommandLineOptions", "Files",
            ]),
        .executableTarget(
            name: "martlet-sim", dependencies: ["BrokerSimulation", "CommandLineOptions"]),
        .executableTarget(
            name: "martlet-bench",
            dependencies: [
                "NetTransport", "WireFormat", "BrokerTerms", "Primitives", "CommandLineOptions",
                "Files", "JSON5", "Threads", "CLinuxShims", "COpenSSL", "CLMDB",
            ], swiftSettings: hot),
        .executableTarget(
            name: "martlet-micro",
            dependencies: [
                "BrokerCore", "QueueStore", "WireFormat", "BrokerTerms", "Primitives",
                "CLinuxShims",
            ],
            path: "Bench/Micro", exclude: ["instructions"], swiftSettings: hot),

        // Tests.
        .target(name: "TestSurroundings", path: "Tests/TestSurroundings"),
        .testTarget(name: "PrimitivesTests", dependencies: ["Primitives"]),
        .target(
            name: "PacketMeanings", dependencies: ["WireFormat", "Primitives"],
            path: "Tests/PacketMeanings"),
        .testTarget(
            name: "WireFormatTests",
            dependencies: ["WireFormat", "PacketMeanings", "BrokerTerms", "Primitives"]),
        .testTarget(
            name: "BrokerCoreTests",
            dependencies: ["BrokerCore", "BrokerSimulation", "BrokerTerms", "Primitives"]),
        .testTarget(
            name: "ReplicationTests", dependencies: ["Replication", "BrokerCore", "Primitives"]),
        .testTarget(
            name: "DialectsTests",
            dependencies: [
                "Dialects", "BrokerCore", "BrokerSimulation", "WireFormat", "BrokerTerms",
                "Primitives",
            ]),
        .testTarget(
            name: "ClientCoreTests",
            dependencies: [
                "ClientCore", "WireFormat", "BrokerTerms", "Primitives", "TestSurroundings",
            ]),
        .testTarget(
            name: "CredentialsTests", dependencies: ["Credentials", "BrokerCore", "COpenSSL"]),
        .testTarget(
            name: "QueueStoreTests",
            dependencies: [
                "QueueStore", "BrokerSimulation", "BrokerCore", "Replication", "BrokerTerms",
                "Primitives", "CLMDB", "TestSurroundings",
            ]),
        .testTarget(
            name: "NetTransportTests",
            dependencies: [
                "NetTransport", "WireFormat", "BrokerTerms", "Primitives", "COpenSSL",
                "TestSurroundings",
            ]),
        .testTarget(name: "FilesTests", dependencies: ["Files"]),
        .testTarget(name: "JSON5Tests", dependencies: ["JSON5"]),
        .testTarget(name: "ConfigurationTests", dependencies: ["Configuration", "BrokerTerms"]),
        .testTarget(
            name: "SourceInterfacesTests", dependencies: ["SourceInterfaces", "Administration"]),
        .testTarget(name: "AdministrationTests", dependencies: ["Administration", "WireFormat"]),
        .testTarget(
            name: "BrokerRuntimeTests",
            dependencies: [
                "BrokerRuntime", "Configuration", "Administration", "WireFormat", "BrokerTerms",
                "BrokerCore", "Replication", "Threads", "Primitives", "COpenSSL",
                "TestSurroundings",
            ]),
        .testTarget(name: "CommandLineOptionsTests", dependencies: ["CommandLineOptions"]),
        .testTarget(name: "SimulationTests", dependencies: ["BrokerSimulation"]),
        .target(
            name: "GatewayModel",
            dependencies: [
                "Gateway", "MartletClient", "PacketMeanings", "WireFormat", "BrokerTerms",
                "Primitives",
            ], path: "Tests/GatewayModel"),
        .testTarget(
            name: "GatewayTests",
            dependencies: [
                "Gateway", "GatewayModel", "MartletClient", "NetTransport", "PacketMeanings",
                "WireFormat", "BrokerTerms", "Primitives",
            ]),
        .testTarget(
            name: "BridgeTests",
            dependencies: [
                "Bridge", "ClientProgram", "ClientCore", "MartletClient", "WireFormat",
                "BrokerTerms", "Primitives", "CommandLineOptions", "NetTransport",
                "TestSurroundings",
            ]),
        .testTarget(
            name: "PushTests",
            dependencies: [
                "Push", "WakeTemplates", "Relay", "MartletClient", "WireFormat", "BrokerTerms",
                "Primitives", "NetTransport", "CommandLineOptions", "Files", "JSON5", "Threads",
                "TestSurroundings",
            ],
            // The destinations, which Python interprets.
            exclude: ["Destinations"]),
        .testTarget(
            name: "WebhooksTests",
            dependencies: [
                "Webhooks", "Relay", "ClientProgram", "MartletClient", "BrokerTerms", "Primitives",
                "CommandLineOptions", "Files", "TestSurroundings",
            ]),
        .testTarget(name: "MartletClientTests", dependencies: ["MartletClient"]),
        .testTarget(
            name: "MartletToolTests",
            dependencies: [
                "martlet", "MartletClient", "CommandLineOptions", "TestSurroundings",
            ]),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "MartletClient", "Administration", "WireFormat", "NetTransport", "BrokerTerms",
                "Primitives", "QueueStore", "BrokerCore", "martletd", "Gateway", "martlet-gateway",
                "martlet", "martlet-bench", "martlet-sim", "Threads", "TestSurroundings", "Bridge",
                "ClientCore", "CommandLineOptions",
            ],
            // What the tests compile or interpret.
            exclude: [
                "RealClients/exchange.c", "RealClients/properties.py",
                "RealClients/websockets.py", "RealClients/dashboard.py",
                "RealClients/dashboard_browser.py", "RealClients/requests.py",
                "RealClients/actuator.py", "RealClients/frames.py", "RealClients/http_exchange.py",
                "RealClients/json_clients.py", "RealClients/event_streams.py",
                "RealClients/webhook_receiver.py",
                "SourceInterfaces/rest_client.py", "SourceInterfaces/quickblox_client.py",
                "SourceInterfaces/leanmessage_client.py",
                "SourceInterfaces/diuit_client.py", "SourceInterfaces/diuit_frames.py",
                "SourceInterfaces/diuit_answerer.py", "SourceInterfaces/diuit_file_rights.py",
                "SourceInterfaces/diuit_files.py",
                "SourceInterfaces/diuit_ends.py", "SourceInterfaces/diuit_kills.py",
                "Full/snapshot.c",
            ]),
        .testTarget(
            name: "BenchTests",
            dependencies: [
                "martlet-bench", "martlet-micro", "martletd", "CommandLineOptions", "NetTransport",
                "PacketMeanings", "WireFormat", "Primitives", "TestSurroundings",
            ]),
        // libFuzzer links the entry by itself (`make fuzz`); the tests run the targets without it.
        .target(
            name: "Fuzzing",
            dependencies: [
                "PacketMeanings", "WireFormat", "BrokerCore", "Dialects", "BrokerSimulation",
                "Credentials", "Configuration", "QueueStore", "Bridge", "ClientCore",
                "MartletClient", "BrokerRuntime", "NetTransport", "Threads", "Gateway",
                "GatewayModel", "BrokerTerms", "Primitives",
            ], path: "Tests/Fuzzing/Targets"),
        .target(name: "FuzzingEntry", dependencies: ["Fuzzing"], path: "Tests/Fuzzing/Entry"),
        .testTarget(name: "FuzzingTests", dependencies: ["Fuzzing", "PacketMeanings"]),
        .testTarget(name: "HygieneTests", exclude: ["Exceptions.txt"]),
    ],
    swiftLanguageModes: [.v6]
)

// The log on NATS JetStream needs libnats, which only a cluster uses: everything else builds, and
// its tests pass, without it. An environment variable says so and not a look for the library, because
// SwiftPM keeps what this file evaluated to until the file or the environment changes
// (docs/decisions/0011-cluster-builds.md). `make` sets it where libnats is installed.
if Context.environment["MARTLET_CLUSTER"] == "1" {
    // The broker of a cluster is the same program, linked with the log.
    for target in package.targets where target.name == "martletd" {
        target.dependencies += ["NATSLog", "Replication", "Files"]
        target.swiftSettings = [.define("CLUSTER")]
    }
    package.targets += [
        .systemLibrary(name: "CNATS", pkgConfig: "libnats", providers: [.apt(["libnats-dev"])]),
        .target(name: "NATSLog", dependencies: ["Replication", "Threads", "JSON5", "CNATS"]),
        .testTarget(
            name: "NATSLogTests",
            dependencies: [
                "NATSLog", "Replication", "BrokerCore", "Primitives", "Threads", "CNATS",
                "TestSurroundings",
            ]),
        .testTarget(
            name: "ClusterTests",
            dependencies: [
                "martletd", "martlet", "martlet-gateway", "MartletClient", "Administration",
                "BrokerTerms", "CLMDB", "TestSurroundings",
            ],
            exclude: ["cluster_clients.py", "cluster_dashboard.py", "cluster_links.py"]),
    ]
}
