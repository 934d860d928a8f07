// The harness's files: scenarios, reports, the configurations of brokers.

import Files

enum HarnessFile {
    static func read(_ path: String) throws(BenchFailure) -> [UInt8] {
        do throws(FileFailure) {
            return try SmallFile.read(path)
        } catch {
            throw BenchFailure("cannot read \(path): \(error)")
        }
    }

    /// Replaces the contents.
    static func write(_ text: String, to path: String) throws(BenchFailure) {
        do throws(FileFailure) {
            try SmallFile.write(text, to: path)
        } catch {
            throw BenchFailure("cannot write \(path): \(error)")
        }
    }
}
