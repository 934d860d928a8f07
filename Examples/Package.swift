// swift-tools-version: 6.2
// Programs that use the Swift SDK as another package would. They depend on the checkout around
// them; a package of your own names a version instead: docs/SDK.md shows how.
import PackageDescription

let package = Package(
    name: "martlet-examples",
    dependencies: [.package(name: "martlet", path: "..")],
    targets: [
        .target(
            name: "Shared", dependencies: [.product(name: "MartletClient", package: "martlet")]),
        .executableTarget(
            name: "sensor",
            dependencies: ["Shared", .product(name: "MartletClient", package: "martlet")]),
        .executableTarget(
            name: "controller",
            dependencies: ["Shared", .product(name: "MartletClient", package: "martlet")]),
        .executableTarget(
            name: "backend",
            dependencies: ["Shared", .product(name: "MartletClient", package: "martlet")]),
        // For the REST interface, without the SDK.
        .executableTarget(name: "conversations"),
    ],
    swiftLanguageModes: [.v6]
)
