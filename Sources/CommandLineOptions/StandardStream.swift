// Writes lines to standard output and standard error without Foundation or buffering: each line is
// one write, so that lines of several programs on one terminal do not mix. A program must not end
// with success if its results could not be written: the first error is kept until
// ``ExitCode/endProcess(of:)``.
import Files
import Glibc

/// One of the two streams a program writes to.
public enum StandardStream: Int32, Sendable {
    /// Results.
    case output = 1
    /// Errors and progress.
    case error = 2

    /// The error of the first failed write of a result; 0 if there is none. Only one task or thread
    /// at a time prints results.
    nonisolated(unsafe) private static var firstFailure: Int32 = 0

    /// Opens the descriptors 0, 1 and 2 if they were closed when the program was started. Otherwise
    /// a file that the program opens would get one of these numbers, and log lines and results
    /// would be written into it. Reading from and writing to the opened descriptors fails with
    /// `EBADF`, as with closed ones. A program calls it before anything else.
    public static func takeClosed() {
        for descriptor in 0...2 as ClosedRange<Int32> where fcntl(descriptor, F_GETFD) < 0 {
            // The system returns the lowest free number, which is this one.
            if open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor {
                _exit(ExitCode.failure.rawValue)
            }
        }
    }

    /// Writes a text and a line feed, and returns when the kernel has accepted all of it.
    ///
    /// - Returns: false if the other end is closed or the device is full; the program may stop
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

    /// The reason why results could not be written, as text; nil if they were.
    public static var outputFailure: String? {
        switch firstFailure {
        case 0: nil
        case EPIPE: "nobody reads standard output any more"
        case let code: "cannot write to standard output: \(SystemError(code: code))"
        }
    }

    /// Closes standard output: some file systems report only then that there is no space.
    fileprivate static func closeOutput() {
        if Glibc.close(output.rawValue) != 0, errno != EINTR, errno != EBADF, firstFailure == 0 {
            firstFailure = errno
        }
    }
}

extension ExitCode {
    /// Ends the process with this code, or with ``failure`` and a line on standard error if results
    /// could not be written. Exit handlers of libraries do not run: that of OpenSSL frees what
    /// threads of clients use until the end.
    public func endProcess(of program: String) -> Never {
        StandardStream.closeOutput()
        guard self == .success, let failure = StandardStream.outputFailure else { _exit(rawValue) }
        StandardStream.error.print("\(program): \(failure)")
        _exit(ExitCode.failure.rawValue)
    }
}
