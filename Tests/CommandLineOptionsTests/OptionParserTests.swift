// Valid command lines, and the errors of invalid ones.
import CommandLineOptions
import Testing

private enum Options: String, OptionRules {
    case port, topic, verbose, set
    case dataDirectory = "data-directory"

    var shape: OptionShape {
        switch self {
        case .port, .topic, .dataDirectory: .value
        case .verbose: .flag
        case .set: .repeated
        }
    }

    var letter: Character? {
        switch self {
        case .port: "p"
        case .topic: "t"
        case .verbose: "v"
        case .set, .dataDirectory: nil
        }
    }

    static var foreignNames: [String: String] { ["q": "--set qos=1", "host": "--port"] }
}

private func parse(
    _ line: String..., positionalMaximum: Int = 0
) throws(UsageError) -> ParsedOptions<Options> {
    switch try OptionParser<Options>.parse(line, positionalMaximum: positionalMaximum) {
    case .run(let options): return options
    case .help: throw UsageError("help")
    }
}

@Suite struct OptionParserTests {
    @Test func `a value follows an equals sign, a space or a letter`() throws {
        #expect(try parse("--port=1883")[.port] == "1883")
        #expect(try parse("--port", "1883")[.port] == "1883")
        #expect(try parse("-p", "1883")[.port] == "1883")
        #expect(try parse("--topic=a=b")[.topic] == "a=b")
        #expect(try parse("--topic=")[.topic] == "")
    }

    @Test func `a flag is present or absent and takes no value`() throws {
        #expect(try parse("--verbose").has(.verbose))
        #expect(try parse("-v").has(.verbose))
        #expect(try !parse().has(.verbose))
        #expect(throws: UsageError("--verbose takes no value")) { try parse("--verbose=yes") }
    }

    @Test func `a repeated option keeps its values in order`() throws {
        #expect(try parse("--set", "a=1", "--set=b=2").all(.set) == ["a=1", "b=2"])
        #expect(try parse().all(.set) == [])
    }

    @Test func `a single option given twice is an error even by its other name`() {
        #expect(throws: UsageError("--port is given twice")) { try parse("--port=1", "-p", "2") }
    }

    @Test func `an error for an unknown option names the nearest one`() {
        #expect(throws: UsageError("unknown option --prot; did you mean --port?")) {
            try parse("--prot", "1")
        }
        #expect(throws: UsageError("unknown option --data-dir; did you mean --data-directory?")) {
            try parse("--data-dir=x")
        }
        #expect(throws: UsageError("unknown option --host; did you mean --port?")) {
            try parse("--host=a")
        }
        #expect(throws: UsageError("unknown option -q; did you mean --set qos=1?")) {
            try parse("-q", "1")
        }
        #expect(throws: UsageError("unknown option --colour")) { try parse("--colour") }
        #expect(throws: UsageError("unknown option -x")) { try parse("-x") }
        #expect(throws: UsageError("unknown option -p1883")) { try parse("-p1883") }
    }

    @Test func `an option is not used as the missing value of another`() {
        #expect(throws: UsageError("missing value: --port VALUE")) {
            try parse("--port", "--verbose")
        }
        #expect(throws: UsageError("missing value: -t VALUE")) { try parse("-t") }
    }

    @Test func `words without dashes are positional up to the allowed number`() throws {
        #expect(try parse("one", "-", positionalMaximum: 2).positionals == ["one", "-"])
        #expect(
            try parse("--", "--port", positionalMaximum: 1).positionals == ["--port"])
        #expect(throws: UsageError("unexpected word \"two\"")) {
            try parse("one", "two", positionalMaximum: 1)
        }
    }

    @Test func `help wins over everything that follows it`() throws {
        #expect(throws: UsageError("help")) { try parse("--port=1", "--help", "--nonsense") }
        #expect(throws: UsageError("help")) { try parse("--port=1", "-h", "--nonsense") }
    }

    @Test func `-h is an option if the rules have it`() throws {
        enum HostOption: String, OptionRules {
            case host
            var shape: OptionShape { .value }
            var letter: Character? { "h" }
        }
        guard case .run(let parsed) = try OptionParser<HostOption>.parse(["-h", "there"]) else {
            throw UsageError("help")
        }
        #expect(parsed[.host] == "there")
    }

    @Test func `numbers are checked against their range`() throws {
        #expect(try parse("--port=65535").integer(.port, in: 1...65535) == 65535)
        #expect(try parse().integer(.port, in: 1...65535) == nil)
        for wrong in ["0", "65536", "12a", "", "1e3"] {
            #expect(throws: UsageError.self) {
                try parse("--port=\(wrong)").integer(.port, in: 1...65535)
            }
        }
    }

    @Test func `times carry units`() throws {
        let cases: [(String, UInt64)] = [
            ("90", 90), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000),
            ("10y", 315_360_000),
        ]
        for (text, seconds) in cases {
            #expect(try parse("--topic", text).seconds(.topic) == seconds)
        }
        for wrong in ["", "s", "-5s", "+5s", "5w", "1.5h", "99999999999999999999y"] {
            #expect(throws: UsageError.self) { try parse("--topic=\(wrong)").seconds(.topic) }
        }
    }

    @Test func `an error names a missing required option`() throws {
        #expect(throws: UsageError("missing --topic")) { try parse().required(.topic) }
        #expect(try parse("-t", "a").required(.topic) == "a")
    }

    @Test func `a help page without an option is detected`() {
        let help = "--port=PORT, -p PORT\n--topic, -t\n--verbose -v\n--set KEY=VALUE"
        #expect(OptionParser<Options>.namesMissing(inHelp: help) == ["--data-directory"])
    }
}

@Suite struct SubcommandTests {
    private enum Command: String, CaseIterable {
        case send
        case listen
        case tokenMint = "token mint"
        case tokenList = "token list"
    }

    private func take(_ words: String...) throws(UsageError) -> (Command, [String]) {
        var rest = words[...]
        let command = try Command.takeSubcommand(from: &rest)
        return (command, Array(rest))
    }

    @Test func `one or two words name the command and the rest stays`() throws {
        #expect(try take("send", "--port=1") == (.send, ["--port=1"]))
        #expect(try take("token", "mint", "x") == (.tokenMint, ["x"]))
        #expect(try take("send", "mint") == (.send, ["mint"]))
    }

    @Test func `an error for a wrong command lists the known ones`() {
        #expect(throws: UsageError("unknown command \"sned\"; did you mean \"send\"?")) {
            try take("sned")
        }
        #expect(throws: UsageError("unknown command \"tokn\"; did you mean \"token mint\"?")) {
            try take("tokn", "mint")
        }
        #expect(
            throws: UsageError("\"token\" is not a command; there is token mint, token list")
        ) { try take("token", "--port=1") }
        #expect(
            throws: UsageError(
                "missing command, one of: send, listen, token mint, token list")
        ) { try take() }
    }
}

@Suite struct SpellingTests {
    @Test func `swapped neighbours, case and one error in three letters are tolerated`() {
        let known = ["keepAliveMaximumSeconds", "sendWindow", "level"]
        #expect(Spelling.nearest(to: "sendWidnow", among: known) == "sendWindow")
        #expect(Spelling.nearest(to: "LEVEL", among: known) == "level")
        #expect(Spelling.nearest(to: "keepaliveMaxSeconds", among: known) == known[0])
        #expect(Spelling.nearest(to: "colour", among: known) == nil)
    }

    @Test func `the first of two equally near names is taken`() {
        #expect(Spelling.nearest(to: "cat", among: ["bat", "rat"]) == "bat")
    }
}
