// The rules of a program's command line, as a value that exists before anything is parsed. A
// program declares an enum whose cases are its options; the parser knows nothing but these rules,
// and the program asks the result by case, so an option that is asked for but not declared does not
// compile. It must not know any program's options, and it prints nothing.

/// How an option is written.
public enum OptionShape: Hashable, Sendable {
    /// Present or absent: `--verbose`.
    case flag
    /// One value, given at most once: `--port=1883` or `--port 1883`.
    case value
    /// One value each time, given any number of times: `--set a=1 --set b=2`.
    case repeated
}

/// The options of one program or subcommand. The raw value is the long name without the dashes.
///
/// Help is written by hand as one text beside the enum, because a person reads it as a page; a test
/// of the program checks with ``OptionParser/namesMissing(inHelp:for:)`` that it names every
/// option.
public protocol OptionRules: RawRepresentable<String>, CaseIterable, Hashable, Sendable {
    /// How this option is written.
    var shape: OptionShape { get }
    /// The one letter that the field knows it by, as in `mosquitto_pub -t`; nil for most.
    var letter: Character? { get }
}

extension OptionRules {
    public var letter: Character? { nil }
}

/// A command line that does not follow the rules. The message is one line for the person who typed
/// it; the program prints it to standard error and exits with ``ExitCode/usage``.
public struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong and how to write it, without a trailing full stop or line feed.
    public let message: String

    public init(_ message: String) {
        self.message = message
    }

    public var description: String { message }
}
