// Public libraries of Python for clients of tests, each set in an environment of its own below the
// build directory.

import Foundation
import TestSurroundings

enum PythonLibraries {
    /// An interpreter with libraries; nil if they cannot be installed.
    ///
    /// - Parameters:
    ///   - name: of the environment.
    ///   - modules: what has to be there, joined by commas.
    static func interpreter(
        _ name: String, importing modules: String, packages: [String]
    ) -> String? {
        let path = SourceTree.root.appending(path: ".build/\(name)").path
        let python = "\(path)/bin/python3"
        if !FileManager.default.isExecutableFile(atPath: python) {
            _ = runs(["/usr/bin/python3", "-m", "venv", path])
        }
        let check = [python, "-c", "import \(modules)"]
        if runs(check) { return python }
        _ = runs(["\(path)/bin/pip", "install", "--quiet"] + packages)
        return runs(check) ? python : nil
    }

    private static func runs(_ command: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: command[0])
        process.arguments = Array(command.dropFirst())
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
