// Connects serial devices and pseudo-terminals with an event loop for sockets: a thread copies
// bytes between the terminal and one end of a socket pair, whose other end belongs to the loop.

import Glibc
import NetTransport
import Threads

/// Opens a terminal and copies its bytes.
enum Terminal {
    static let baudDefault: UInt32 = 115_200
    /// The size of one read: the maximum that a terminal of Linux holds (N_TTY_BUF_SIZE).
    private static let readMaximum = 4096

    /// The system's constant for a speed; nil if it has none.
    static func speed(_ baud: UInt32) -> speed_t? {
        switch baud {
        case 9_600: speed_t(B9600)
        case 19_200: speed_t(B19200)
        case 38_400: speed_t(B38400)
        case 57_600: speed_t(B57600)
        case 115_200: speed_t(B115200)
        case 230_400: speed_t(B230400)
        case 460_800: speed_t(B460800)
        case 921_600: speed_t(B921600)
        default: nil
        }
    }

    /// Opens a terminal in raw mode and returns a non-blocking socket: bytes written to it go to
    /// the terminal, and it ends when the terminal does.
    static func open(_ path: String, baud: UInt32) throws(TransportError) -> Int32 {
        let terminal = Glibc.open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
        guard terminal >= 0 else { throw .system(call: "open", subject: path, errno: errno) }
        var mode = termios()
        var pair: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard tcgetattr(terminal, &mode) == 0, socketpair(AF_UNIX, kind, 0, &pair) == 0 else {
            let error = errno
            Glibc.close(terminal)
            throw .system(call: "tcgetattr", subject: path, errno: error)
        }
        cfmakeraw(&mode)
        if let speed = speed(baud) { cfsetspeed(&mode, speed) }
        tcsetattr(terminal, TCSANOW, &mode)
        let inner = pair[1]
        // Bytes that the gateway does not read must not wait here, so that they slow the device
        // down.
        var small = Int32(readMaximum)
        setsockopt(
            inner, SOL_SOCKET, SO_SNDBUF, &small, socklen_t(MemoryLayout.size(ofValue: small)))
        guard fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0, fcntl(inner, F_SETFL, O_NONBLOCK) == 0,
            Thread.detach(name: "terminal", { carry(terminal, inner) })
        else {
            for descriptor in [terminal, pair[0], pair[1]] { Glibc.close(descriptor) }
            throw .system(call: "pthread_create", subject: path, errno: EAGAIN)
        }
        return pair[0]
    }

    /// Runs until either end closes. Neither direction waits for the other, and each holds at most
    /// the bytes of one read: bytes that the gateway does not read stay in the terminal.
    private static func carry(_ terminal: Int32, _ socket: Int32) {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var directions = [
            Direction(source: terminal, target: socket),
            Direction(source: socket, target: terminal),
        ]
        var isOpen = true
        while isOpen {
            let isFull = directions.map { !$0.bytes.isEmpty }
            var ends = [
                pollfd(
                    fd: terminal, events: events(reads: !isFull[0], writes: isFull[1]), revents: 0),
                pollfd(
                    fd: socket, events: events(reads: !isFull[1], writes: isFull[0]), revents: 0),
            ]
            guard poll(&ends, 2, -1) >= 0 || errno == EINTR else { break }
            let hasFailed = ends.contains { $0.revents & Int16(POLLERR | POLLNVAL) != 0 }
            // The bytes that remain when one end hangs up are still read.
            let isReadable = ends.map { $0.revents & Int16(POLLIN | POLLHUP) != 0 }
            isOpen = !hasFailed
            for index in directions.indices where isOpen {
                if !isFull[index], isReadable[index] { isOpen = directions[index].fill() }
                if isOpen { isOpen = directions[index].empty() }
            }
            // The other side is closed and cannot accept the bytes of this one.
            if isFull[0], isReadable[1], ends[1].revents & Int16(POLLHUP) != 0 { isOpen = false }
            if isFull[1], isReadable[0], ends[0].revents & Int16(POLLHUP) != 0 { isOpen = false }
        }
        Glibc.close(terminal)
        Glibc.close(socket)
    }

    private static func events(reads: Bool, writes: Bool) -> Int16 {
        Int16((reads ? POLLIN : 0) | (writes ? POLLOUT : 0))
    }

    /// Bytes from one descriptor to another, both non-blocking.
    private struct Direction {
        let source: Int32
        let target: Int32
        var bytes: ArraySlice<UInt8> = []

        /// Reads once. False at the end.
        mutating func fill() -> Bool {
            var room = [UInt8](repeating: 0, count: Terminal.readMaximum)
            let count = read(source, &room, room.count)
            if count < 0 { return errno == EINTR || errno == EAGAIN }
            bytes = room[..<count]
            return count > 0
        }

        /// Writes what it can. False if the other end takes no more bytes.
        mutating func empty() -> Bool {
            while !bytes.isEmpty {
                let count = bytes.withUnsafeBytes { write(target, $0.baseAddress, $0.count) }
                if count < 0, errno == EINTR { continue }
                if count < 0 { return errno == EAGAIN }
                bytes = bytes.dropFirst(count)
            }
            return true
        }
    }
}
