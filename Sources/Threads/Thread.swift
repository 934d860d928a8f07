// A thread of the operating system with a name: started once, waited for.

import CLinuxShims
import Glibc

/// A running thread. Not waiting for it leaves it running.
public final class Thread {
    private let identifier: pthread_t

    private final class Start {
        let name: String
        let body: () -> Void
        init(name: String, body: @escaping () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Starts a thread. `name` is what `top -H` shows, at most 15 bytes of it.
    public init(name: String, _ body: sending @escaping () -> Void) {
        let identifier = Self.start(Start(name: name, body: body))
        precondition(identifier != nil, "no thread to be had")
        self.identifier = identifier!
    }

    /// Starts a thread; nil where the system has no more threads to give.
    public static func attempt(name: String, _ body: sending @escaping () -> Void) -> Thread? {
        start(Start(name: name, body: body)).map(Thread.init(identifier:))
    }

    private init(identifier: pthread_t) {
        self.identifier = identifier
    }

    /// Starts a thread that is not joined, and that leaves nothing behind when it ends.
    ///
    /// - Returns: false where the system has no more threads to give.
    public static func detach(name: String, _ body: sending @escaping () -> Void) -> Bool {
        guard let identifier = start(Start(name: name, body: body)) else { return false }
        pthread_detach(identifier)
        return true
    }

    private static func start(_ start: Start) -> pthread_t? {
        var identifier = pthread_t()
        let reference = Unmanaged.passRetained(start)
        let code = pthread_create(
            &identifier, nil,
            { argument in
                let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
                _ = linux_set_thread_name(String(start.name.prefix(15)))
                start.body()
                return nil
            }, reference.toOpaque())
        if code == 0 { return identifier }
        reference.release()
        return nil
    }

    /// The clock of the thread's CPU time, until it is joined.
    public var cpuClock: clockid_t {
        var clock = clockid_t()
        let code = pthread_getcpuclockid(identifier, &clock)
        precondition(code == 0, "the clock of a thread that is gone")
        return clock
    }

    /// Returns when the thread has ended. Called once.
    public func join() {
        pthread_join(identifier, nil)
    }
}
