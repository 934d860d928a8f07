// The exit codes of all programs of this package, so that scripts can identify errors without
// reading text. docs/operating lists them.

/// The result of a program.
public struct ExitCode: Hashable, Sendable {
    /// 0...255, as the shell sees it.
    public let rawValue: Int32

    private init(_ rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// Success.
    public static let success = ExitCode(0)
    /// The command line or the configuration is invalid; nothing was started. Mosquitto's tools use
    /// 1 in the same sense.
    public static let usage = ExitCode(1)
    /// A failure without a code of its own; standard error has the reason.
    public static let failure = ExitCode(2)
    /// An address that the broker should listen on is in use.
    public static let addressInUse = ExitCode(3)
    /// The store cannot be opened or written: permissions, a full disk, a damaged file.
    public static let storeUnusable = ExitCode(4)
    /// The broker could not be reached, or the connection was lost permanently.
    public static let notConnected = ExitCode(5)
    /// A message was sent, and some of its receivers were refused.
    public static let someRefused = ExitCode(6)
    /// A message was sent, and a receiver told that it did not apply it, or nobody received it.
    public static let notApplied = ExitCode(7)
    /// Another node of the cluster is the primary: the next start is that of a standby.
    public static let deposed = ExitCode(8)
    /// The time of `-W` has passed; 27 is MOSQ_ERR_TIMEOUT, which scripts test for.
    public static let timeout = ExitCode(27)

    /// The broker refused; the code is its reason code, as in Mosquitto's tools.
    ///
    /// - Parameter reason: 0x80 or above; a refusal with a success code is another failure.
    public static func refused(reason: UInt8) -> ExitCode {
        reason >= 0x80 ? ExitCode(Int32(reason)) : .failure
    }

    /// A signal ended the program in order: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP, as
    /// shells report it.
    ///
    /// - Parameter signal: the signal's number.
    public static func stopped(by signal: Int32) -> ExitCode { ExitCode(128 + signal) }
}
