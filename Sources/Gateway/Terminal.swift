// Serial devices and pseudo-terminals for a loop that knows sockets: a thread carries bytes between
// the terminal and one end of a socket pair, whose other end the loop has.

import Glibc
import NetTransport
import Threads

/// Opens a terminal and carries its bytes.
enum Terminal {
    static let baudDefault: UInt32 = 115_200

    /// The system's word for a speed; nil for one that it does not have.
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

    /// Opens a terminal in raw mode. The descriptor that is given is a non-blocking socket: what is
    /// written to it goes to the terminal, and it ends when the terminal does.
    static func open(_ path: String, baud: UInt32) throws(TransportError) -> Int32 {
        let terminal = Glibc.open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)
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
        guard fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0,
            Thread.detach(name: "terminal", { carry(terminal, inner) })
        else {
            for descriptor in [terminal, pair[0], pair[1]] { Glibc.close(descriptor) }
            throw .system(call: "pthread_create", subject: path, errno: EAGAIN)
        }
        return pair[0]
    }

    /// Until either end is gone.
    private static func carry(_ terminal: Int32, _ socket: Int32) {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var ends = [terminal, socket].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var isOpen = true
        while isOpen {
            guard poll(&ends, 2, -1) > 0 || errno == EINTR else { break }
            for (index, target) in [(0, socket), (1, terminal)] where ends[index].revents != 0 {
                isOpen = isOpen && copy(ends[index].fd, to: target)
            }
        }
        Glibc.close(terminal)
        Glibc.close(socket)
    }

    /// Carries what one read gives; false at the end.
    private static func copy(_ source: Int32, to target: Int32) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { room in
            let count = read(source, room.baseAddress, room.count)
            if count < 0 { return errno == EINTR || errno == EAGAIN }
            var written = 0
            while written < count {
                let step = write(target, room.baseAddress! + written, count - written)
                if step < 0, errno == EINTR { continue }
                guard step > 0 else { return false }
                written += step
            }
            return count > 0
        }
    }
}
