// Lines to standard output and standard error without Foundation or buffering: each line is handed
// to the kernel whole, so that lines of several programs on one terminal do not mix. A program
// whose results did not get out must not end with success: what failed is remembered until
// ``ExitCode/afterOutput(of:)``.
import Files
import Glibc

/// One of the two streams a program writes to.
public enum StandardStream: Int32, Sendable {
    /// Results.
    case output = 1
    /// Complaints and progress.
    case error = 2

    /// Of the first write of a result that failed; 0 where none has. Results are printed by one
    /// task or thread at a time.
    nonisolated(unsafe) private static var firstFailure: Int32 = 0

    /// Takes the descriptors 0, 1 and 2 where they were closed when the program was started. Else a
    /// file that the program opens would become one of them, and log lines and results would be
    /// written into it. Nothing can be read from or written to what this opens: both fail with
    /// `EBADF`, as they do with a closed descriptor. A program calls it before anything else.
    public static func takeClosed() {
        for descriptor in 0...2 as ClosedRange<Int32> where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest one that is free: this one.
            if open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor {
                exit(ExitCode.failure.rawValue)
            }
        }
    }

    /// Writes a text and a line feed, and returns when the kernel has taken all of it.
    ///
    /// - Returns: false if the other end is gone or the device is full; the program may stop
    ///   printing.
    @discardableResult
    public func print(_ text: String) -> Bool {
        do throws(SystemError) {
            try DescriptorIO.write("\(text)\n".utf8, to: rawValue)
            return true
        } catch {
            if self == .output, Self.firstFailure == 0 { Self.firstFailure = error.code }
            return false
        }
    }

    /// Why results did not get out, for people; nil as long as they did.
    public static var outputFailure: String? {
        switch firstFailure {
        case 0: nil
        case EPIPE: "nobody reads standard output any more"
        case let code: "cannot write to standard output: \(SystemError(code: code))"
        }
    }

    /// Closes standard output: some file systems tell only then that there is no room.
    fileprivate static func closeOutput() {
        if Glibc.close(output.rawValue) != 0, errno != EINTR, errno != EBADF, firstFailure == 0 {
            firstFailure = errno
        }
    }
}

extension ExitCode {
    /// The code with which a program ends: this one, or ``failure`` and a line on standard error
    /// where results did not get out. Nothing can be printed afterwards.
    public func afterOutput(of program: String) -> ExitCode {
        StandardStream.closeOutput()
        guard self == .success, let failure = StandardStream.outputFailure else { return self }
        StandardStream.error.print("\(program): \(failure)")
        return .failure
    }
}
