// Small files: complete contents, and refused files.
import Foundation
import Glibc
import Testing

@testable import Files

@Suite struct SmallFileTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "martlet-files-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.path(percentEncoded: false))
    }

    @Test func `a written file is read back, and replaces the old contents`() throws {
        try withFolder { folder in
            let path = folder + "file"
            // More than one read takes.
            let long = String(repeating: "0123456789", count: 20_000)
            for text in [long, "short", ""] {
                try SmallFile.write(text, to: path)
                #expect(try SmallFile.read(path) == Array(text.utf8))
            }
        }
    }

    @Test func `a file of the maximum size is read, and one byte more is refused`() throws {
        try withFolder { folder in
            let path = folder + "file"
            let largest = String(repeating: "x", count: SmallFile.byteCountMaximum)
            try SmallFile.write(largest, to: path)
            #expect(try SmallFile.read(path).count == SmallFile.byteCountMaximum)
            try SmallFile.write(largest + "x", to: path)
            #expect(
                throws: FileFailure.tooLarge(byteCountMaximum: SmallFile.byteCountMaximum)
            ) { try SmallFile.read(path) }
        }
    }

    @Test func `reading a device does not fill the memory`() {
        #expect(throws: FileFailure.tooLarge(byteCountMaximum: SmallFile.byteCountMaximum)) {
            try SmallFile.read("/dev/zero")
        }
    }

    @Test func `an error has the system's reason`() {
        #expect(throws: FileFailure.system(SystemError(code: ENOENT))) {
            try SmallFile.read("/proc/nonexistent/file")
        }
        #expect(throws: FileFailure.system(SystemError(code: ENOENT))) {
            try SmallFile.write("", to: "/proc/nonexistent/file")
        }
        #expect(throws: FileFailure.system(SystemError(code: ENOSPC))) {
            try SmallFile.write("x", to: "/dev/full")
        }
        #expect("\(FileFailure.system(SystemError(code: ENOENT)))" == "No such file or directory")
    }

    @Test func `a pipe is read to its end, or to the limit`() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        try DescriptorIO.write("abcdef".utf8, to: ends[1])
        close(ends[1])
        #expect(
            try DescriptorIO.read(from: ends[0], byteCountMaximum: 4) == Array("abcd".utf8))
        #expect(
            try DescriptorIO.read(from: ends[0], byteCountMaximum: 4) == Array("ef".utf8))
    }

    @Test func `a secret that others may read is refused`() throws {
        try withFolder { folder in
            let path = folder + "token"
            try SmallFile.write("secret\n", to: path)
            chmod(path, 0o604)
            #expect(
                throws: SecretFileFailure(
                    description: "others may read \(path); take that away with: chmod o= \(path)")
            ) { try SecretFile.read(path) }
            chmod(path, 0o640)
            #expect(try SecretFile.read(path) == "secret")
            try SmallFile.write("\n", to: path)
            #expect(
                throws: SecretFileFailure(description: "the first line of \(path) is empty")
            ) { try SecretFile.read(path) }
        }
        #expect(throws: SecretFileFailure(description: "/dev/null is not a regular file")) {
            try SecretFile.read("/dev/null")
        }
    }

    @Test func `a secret is the first line`() {
        #expect(SmallFile.firstLine(Array("secret\nmore".utf8)) == "secret")
        #expect(SmallFile.firstLine(Array("secret\r\n".utf8)) == "secret")
        #expect(SmallFile.firstLine(Array("secret".utf8)) == "secret")
        #expect(SmallFile.firstLine(Array("\nmore".utf8)) == nil)
        #expect(SmallFile.firstLine([]) == nil)
    }
}
