// A named thread of the operating system.

import CLinuxShims
import Glibc

/// A running thread. It keeps running if it is never joined.
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
        precondition(identifier != nil, "cannot start thread \(name)")
        self.identifier = identifier!
    }

    /// Starts a thread; nil if the system cannot create another thread.
    public static func attempt(name: String, _ body: sending @escaping () -> Void) -> Thread? {
        start(Start(name: name, body: body)).map(Thread.init(identifier:))
    }

    private init(identifier: pthread_t) {
        self.identifier = identifier
    }

    /// Starts a detached thread, whose resources are freed when it ends.
    ///
    /// - Returns: false if the system cannot create another thread.
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
        precondition(code == 0, "pthread_getcpuclockid returned \(code)")
        return clock
    }

    /// Waits until the thread has ended. Must be called at most once.
    public func join() {
        pthread_join(identifier, nil)
    }
}
