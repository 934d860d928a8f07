// The exit codes of every program of this package, so that scripts can tell what went wrong without
// reading text. docs/operating lists them.

/// How a program ended.
public struct ExitCode: Hashable, Sendable {
    /// 0...255, as the shell sees it.
    public let rawValue: Int32

    private init(_ rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// All went well.
    public static let success = ExitCode(0)
    /// The command line or the configuration is wrong; nothing was started. Mosquitto's tools use 1
    /// in the same sense.
    public static let usage = ExitCode(1)
    /// Something failed that has no code of its own; standard error says what.
    public static let failure = ExitCode(2)
    /// An address the broker should listen on is taken: another broker runs there.
    public static let addressInUse = ExitCode(3)
    /// The store cannot be opened or written: permissions, a full disk, a damaged file.
    public static let storeUnusable = ExitCode(4)
    /// No broker could be reached, or the connection was lost for good.
    public static let notConnected = ExitCode(5)
    /// A message was sent, and some of its receivers were refused.
    public static let someRefused = ExitCode(6)
    /// The time given with `-W` is over; 27 is MOSQ_ERR_TIMEOUT, which scripts test for.
    public static let timeout = ExitCode(27)

    /// The broker refused; the code is its reason code, as in Mosquitto's tools.
    ///
    /// - Parameter reason: 0x80 or above; a broker that refuses with a success has failed in some
    ///   other way.
    public static func refused(reason: UInt8) -> ExitCode {
        reason >= 0x80 ? ExitCode(Int32(reason)) : .failure
    }

    /// A signal asked the program to end, and it did: 130 for SIGINT, 143 for SIGTERM, 129 for
    /// SIGHUP, as shells report it.
    ///
    /// - Parameter signal: the signal's number.
    public static func stopped(by signal: Int32) -> ExitCode { ExitCode(128 + signal) }
}
