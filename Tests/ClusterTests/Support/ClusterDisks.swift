// Small disks for the servers of a test, in memory, so that they can be full. They are mounted as
// long as the test runs, which only root may do.

import Foundation
import TestSurroundings

/// Three disks that end with the test process, however that ends.
final class ClusterDisks: @unchecked Sendable {
    private let shell = Process()
    private let input = Pipe()
    private let place: String

    /// Mebibytes of a disk: twice the stream of a test's cluster.
    private static let mebibytes = 600

    /// Nil where nobody may mount a disk.
    init?(in directory: TemporaryDirectory) throws {
        place = directory.file("disks")
        shell.executableURL = URL(filePath: "/bin/sh")
        let script = """
            for index in 0 1 2; do
                mkdir -p "$0/$index" && mount -t tmpfs -o size=\(Self.mebibytes)m disk "$0/$index" \
                    || { echo no; exit 1; }
            done
            echo mounted
            read end
            for index in 0 1 2; do umount -l "$0/$index"; done
            """
        shell.arguments = ["-c", script, place]
        let output = Pipe()
        shell.standardInput = input
        shell.standardOutput = output
        shell.standardError = FileHandle.nullDevice
        for pipe in [input, output] {
            _ = fcntl(pipe.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }
        try shell.run()
        guard try LineQueue(output.fileHandleForReading).next() == "mounted" else {
            shell.waitUntilExit()
            return nil
        }
    }

    deinit {
        // A program that another test has started at this moment may have the end of the pipe, so
        // that the shell would not see it closed.
        let input = input.fileHandleForWriting
        if shell.isRunning { try? input.write(contentsOf: Data("\n".utf8)) }
        try? input.close()
        shell.waitUntilExit()
    }

    /// The directory of a server's data.
    func directory(of index: Int) -> String { "\(place)/\(index)" }

    private func filler(of index: Int) -> String { "\(directory(of: index))/filler" }

    /// Takes all the space that is left.
    func fill(_ index: Int) throws {
        let descriptor = open(filler(of: index), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        var offset = 0
        // What is free may become less meanwhile.
        for _ in 0..<100 {
            var state = statvfs()
            guard statvfs(directory(of: index), &state) == 0, state.f_bavail > 0 else { return }
            let free = Int(state.f_bavail) * Int(state.f_frsize)
            if posix_fallocate(descriptor, offset, free) == 0 { offset += free }
        }
    }

    /// Gives it back.
    func empty(_ index: Int) { unlink(filler(of: index)) }
}
