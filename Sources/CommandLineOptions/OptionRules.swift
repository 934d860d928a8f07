// The rules of a program's command line, as a value that exists before parsing. A program declares
// an enum whose cases are its options. The parser knows only these rules, and the program reads the
// result by case, so code that reads an undeclared option does not compile. This file knows no
// program's options and prints nothing.

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
/// Help is one text beside the enum, because people read it as a page. A test of the program checks
/// with ``OptionParser/namesMissing(inHelp:for:)`` that it names every option.
public protocol OptionRules: RawRepresentable<String>, CaseIterable, Hashable, Sendable {
    /// How this option is written.
    var shape: OptionShape { get }
    /// Its letter in other tools, as in `mosquitto_pub -t`; nil for most.
    var letter: Character? { get }
    /// What to write for options of other programs, by their names without dashes, for the advice
    /// on an unknown option: `"q": "--grade"`.
    static var foreignNames: [String: String] { get }
}

extension OptionRules {
    public var letter: Character? { nil }
    public static var foreignNames: [String: String] { [:] }
}

/// An invalid command line. The message is one line for people; the program prints it to standard
/// error and exits with ``ExitCode/usage``.
public struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The error and the correct form, without a final full stop or line feed.
    public let message: String

    public init(_ message: String) {
        self.message = message
    }

    public var description: String { message }
}
