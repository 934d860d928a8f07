// From arguments to an exit code: selects the command, runs it, and reports every failure with
// advice.

import Administration
import CommandLineOptions
import MartletClient
import Threads

/// The commands, as typed.
enum Command: String, CaseIterable {
    case send
    case listen
    case recall
    case replace
    case presence
    case groupCreate = "group create"
    case groupJoin = "group join"
    case groupLeave = "group leave"
    case groupKick = "group kick"
    case groupBan = "group ban"
    case groupList = "group list"
    case groupShow = "group show"
    case groupMeta = "group meta"
    case groupAllow = "group allow"
    case groupHistory = "group history"
    case groupDelete = "group delete"
    case tokenMint = "token mint"
    case tokenList = "token list"
    case tokenRevoke = "token revoke"
    case wakeSet = "wake set"
    case wakeList = "wake list"
    case wakeRemove = "wake remove"
    case wakeTest = "wake test"
    case wakeLog = "wake log"
    case wakeTemplateSet = "wake template set"
    case wakeTemplateList = "wake template list"
    case wakeTemplateRemove = "wake template remove"
    case wakeTemplateTry = "wake template try"
    case passwordSet = "password set"
    case passwordList = "password list"
    case passwordExpire = "password expire"
    case passwordRevoke = "password revoke"
    case importMosquitto = "import mosquitto"
    case sessionList = "session list"
    case sessionShow = "session show"
    case sessionWatch = "session watch"
    case sessionKick = "session kick"
    case sessionDelete = "session delete"
    case queueShow = "queue show"
    case queueMessages = "queue messages"
    case queueDrop = "queue drop"
    case queuePurge = "queue purge"
    case conversations
    case history
    case historyRemove = "history remove"
    case historyTopics = "history topics"
    case historyRead = "history read"
    case historyHide = "history hide"
    case read
    case applied
    case retainedList = "retained list"
    case retainedShow = "retained show"
    case retainedDelete = "retained delete"
    case appShow = "app show"
    case appRights = "app rights"
    case explain
    case trace
    case traceList = "trace list"
    case traceStop = "trace stop"
    case backup
    case appCreate = "app create"
    case appList = "app list"
    case appDelete = "app delete"
    case appKeyAdd = "app key add"
    case appKeyList = "app key list"
    case appKeyRevoke = "app key revoke"
    case userAdd = "user add"
    case userList = "user list"
    case userShow = "user show"
    case userDelete = "user delete"
    case operatorAdd = "operator add"
    case operatorList = "operator list"
    case operatorRevoke = "operator revoke"
    case dashboard
    case stats
    case top
    case listeners
    case refusals
    case log
    case reload
    case logLevel = "log-level"
    case clusterStatus = "cluster status"
    case clusterStepDown = "cluster step-down"
}

/// The failure of a command: its message, and the exit code.
struct CommandFailure: Error {
    let message: String
    let code: ExitCode

    init(_ message: String, _ code: ExitCode) {
        self.message = message
        self.code = code
    }
}

enum MartletProgram {
    /// Runs the command of the process, and ends its output. The main thread waits here, because
    /// the runtime's own main thread would end at the first signal.
    static func runToEnd() -> ExitCode {
        CommandStop.receiveSignals()
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let word = CommandLine.unsafeArgv[index] else { break }
            if String(validatingCString: word) == nil {
                StandardStream.error.print(
                    "martlet: word \(index) of the command line is not UTF-8; bytes can be sent "
                        + "from standard input with --bytes")
                return .usage
            }
        }
        let code = Locked(ExitCode.failure)
        let ended = WakeSignal()
        Task.detached {
            let result = await run(CommandLine.arguments.dropFirst())
            code.withLock { $0 = result }
            ended.notify()
        }
        _ = ended.wait()
        return code.withLock { $0 }
    }

    static func run(_ arguments: ArraySlice<String>) async -> ExitCode {
        do {
            switch arguments.first {
            case "--help", "-h", "help":
                StandardStream.output.print(try help(on: arguments.dropFirst()))
                return .success
            case "--version":
                StandardStream.output.print("martlet \(ProgramVersion.text)")
                return .success
            default: break
            }
            // `martlet token --help`: the verb's page, although the command is incomplete.
            if arguments.count == 2, let last = arguments.last, ["--help", "-h"].contains(last),
                let verb = arguments.first
            {
                StandardStream.output.print(try help(on: [verb]))
                return .success
            }
            var rest = arguments
            if let advice = ForeignCommands.advice(on: arguments.first) {
                throw UsageError(advice)
            }
            let command = try Command.takeSubcommand(from: &rest)
            try await run(command, rest)
            return .success
        } catch let error as UsageError {
            let topic = arguments.first.flatMap(HelpTopic.init(rawValue:))?.rawValue
            StandardStream.error.print(
                "martlet: \(error.message)\nSee martlet help" + (topic.map { " \($0)" } ?? ""))
            return .usage
        } catch let failure as CommandFailure {
            StandardStream.error.print("martlet: \(failure.message)")
            return failure.code
        } catch {
            // Commands put everything else into one of the two.
            preconditionFailure("unexpected error: \(error)")
        }
    }

    static func run(_ command: Command, _ arguments: ArraySlice<String>) async throws {
        do {
            switch command {
            case .send: try await SendCommand.run(arguments)
            case .listen: try await ListenCommand.run(arguments)
            case .recall: try await RecallCommand.run(arguments)
            case .replace: try await ReplaceCommand.run(arguments)
            case .presence: try await PresenceCommand.run(arguments)
            case .groupCreate, .groupJoin, .groupLeave, .groupKick, .groupBan, .groupList,
                .groupShow, .groupMeta, .groupAllow, .groupHistory, .groupDelete:
                try await ParsedOptions<GroupOption>.runGroup(command, arguments)
            case .tokenMint: try TokenMintCommand.run(arguments)
            case .tokenList: try TokenListCommand.run(arguments)
            case .tokenRevoke: try TokenRevokeCommand.run(arguments)
            case .wakeSet: try WakeSetCommand.run(arguments)
            case .wakeList: try WakeListCommand.run(arguments)
            case .wakeRemove: try WakeRemoveCommand.run(arguments)
            case .wakeTest: try WakeTestCommand.run(arguments)
            case .wakeLog: try WakeLogCommand.run(arguments)
            case .wakeTemplateSet: try WakeTemplateSetCommand.run(arguments)
            case .wakeTemplateList: try WakeTemplateListCommand.run(arguments)
            case .wakeTemplateRemove: try WakeTemplateRemoveCommand.run(arguments)
            case .wakeTemplateTry: try WakeTemplateTryCommand.run(arguments)
            case .passwordSet: try PasswordSetCommand.run(arguments)
            case .passwordList: try PasswordListCommand.run(arguments)
            case .passwordExpire: try PasswordExpireCommand.run(arguments)
            case .passwordRevoke: try PasswordRevokeCommand.run(arguments)
            case .importMosquitto: try ImportMosquittoCommand.run(arguments)
            case .sessionList: try SessionListCommand.run(arguments)
            case .sessionShow: try SessionShowCommand.run(arguments)
            case .sessionWatch: try SessionWatchCommand.run(arguments)
            case .sessionKick: try SessionKickCommand.run(arguments)
            case .sessionDelete: try SessionDeleteCommand.run(arguments)
            case .queueShow: try QueueShowCommand.run(arguments)
            case .queueMessages: try QueueMessagesCommand.run(arguments)
            case .conversations: try await ConversationsCommand.run(arguments)
            case .history: try await HistoryCommand.run(arguments)
            case .historyRemove: try HistoryRemoveCommand.run(arguments)
            case .historyTopics: try HistoryTopicsCommand.run(arguments)
            case .historyRead, .read:
                try await HistoryMarkCommand.run(arguments, hides: false)
            case .historyHide: try await HistoryMarkCommand.run(arguments, hides: true)
            case .applied: try await AppliedCommand.run(arguments)
            case .queueDrop: try QueueDropCommand.run(arguments)
            case .queuePurge: try QueuePurgeCommand.run(arguments)
            case .retainedList: try RetainedListCommand.run(arguments)
            case .retainedShow: try RetainedShowCommand.run(arguments)
            case .retainedDelete: try RetainedDeleteCommand.run(arguments)
            case .appShow: try AppShowCommand.run(arguments)
            case .appRights: try AppRightsCommand.run(arguments)
            case .explain: try ExplainCommand.run(arguments)
            case .trace: try TraceCommand.run(arguments)
            case .traceList: try TraceListCommand.run(arguments)
            case .traceStop: try TraceStopCommand.run(arguments)
            case .backup: try BackupCommand.run(arguments)
            case .appCreate: try AppCreateCommand.run(arguments)
            case .appList: try AppListCommand.run(arguments)
            case .appDelete: try AppDeleteCommand.run(arguments)
            case .appKeyAdd: try AppKeyAddCommand.run(arguments)
            case .appKeyList: try AppKeyListCommand.run(arguments)
            case .appKeyRevoke: try AppKeyRevokeCommand.run(arguments)
            case .userAdd: try UserAddCommand.run(arguments)
            case .userList: try UserListCommand.run(arguments)
            case .userShow: try UserShowCommand.run(arguments)
            case .userDelete: try UserDeleteCommand.run(arguments)
            case .operatorAdd: try OperatorAddCommand.run(arguments)
            case .operatorList: try OperatorListCommand.run(arguments)
            case .operatorRevoke: try OperatorRevokeCommand.run(arguments)
            case .dashboard: try DashboardCommand.run(arguments)
            case .stats: try StatsCommand.run(arguments)
            case .top: try TopCommand.run(arguments)
            case .listeners: try ListenersCommand.run(arguments)
            case .refusals: try RefusalsCommand.run(arguments)
            case .log: try LogCommand.run(arguments)
            case .reload: try ReloadCommand.run(arguments)
            case .logLevel: try LogLevelCommand.run(arguments)
            case .clusterStatus: try ClusterStatusCommand.run(arguments)
            case .clusterStepDown: try ClusterStepDownCommand.run(arguments)
            }
        } catch let error as MartletError {
            throw CommandFailure(error)
        } catch let error as AdministrationError {
            throw CommandFailure(error)
        } catch is HelpRequest {
            StandardStream.output.print(
                try help(on: command.rawValue.split(separator: " ").map(String.init)[...]))
        }
    }

    /// `martlet help`, `martlet help token`, `martlet help token mint`.
    private static func help(on words: ArraySlice<String>) throws(UsageError) -> String {
        guard let word = words.first else { return HelpPages.overview }
        guard let topic = HelpTopic(rawValue: word) else {
            let known = HelpTopic.allCases.map(\.rawValue)
            let nearest = Spelling.nearest(to: word, among: known)
            throw UsageError(
                "there is no help on \"\(word)\"; "
                    + (nearest.map { "did you mean \"\($0)\"?" }
                        ?? "there is on \(known.joined(separator: ", "))"))
        }
        return topic.page
    }
}

/// `--help` or `-h` after a command.
struct HelpRequest: Error {}

extension CommandFailure {
    /// A result could not be written.
    static var output: CommandFailure {
        CommandFailure(
            StandardStream.outputFailure ?? "cannot write to standard output", .failure)
    }

    init(_ error: MartletError) {
        switch error {
        case .invalid(let text): self.init(text, .usage)
        case .refused(let reason, _), .stopped(let reason):
            let code = reason.isFailure ? ExitCode.refused(reason: reason.rawValue) : .failure
            var advice = Self.advice(reason)
            // The broker's own text tells more.
            if case .refused(_, let text) = error, !text.isEmpty { advice = "" }
            if case .stopped(.notAuthorized) = error { advice = "; its token was taken back" }
            self.init("\(error)\(advice)", code)
        case .unreachable(let text):
            let advice =
                text.contains("certificate")
                ? Self.certificateAdvice
                // The text names the other kind of port already.
                : text.contains(" instead of ")
                    ? "; see --server" : "; is martletd running there? See --server"
            self.init("no connection to \(text)\(advice)", .notConnected)
        case .notConnected, .closed: self.init("\(error)", .notConnected)
        case .tooManySends, .cancelled, .system: self.init("\(error)", .failure)
        }
    }

    /// What `--server` of operators has to be.
    static let listenerAdvice =
        "--server needs the address of a listener https:// or http:// that serves api; on the "
        + "broker's machine, martlet listeners shows them"

    init(_ error: AdministrationError) {
        switch error {
        case .notRunning(let path):
            if let advice = ClusterStatusCommand.standbyAdvice(besideSocket: path) {
                self.init(advice, .notConnected)
                return
            }
            self.init(
                "\(error); is martletd running? --data or MARTLET_DATA selects its data directory",
                .notConnected)
        case .unreachable(_, let reason):
            let advice = reason.contains("certificate") ? Self.certificateAdvice : ""
            self.init("\(error)\(advice)", .notConnected)
        case .noAPI: self.init("\(error). \(Self.listenerAdvice)", .failure)
        case .refused(let refusal):
            let advice =
                refusal.message.hasPrefix("there is no app ")
                ? "; make one with: martlet app create" : ""
            self.init(printable("\(error)") + advice, .refused(reason: refusal.reason))
        case .timedOut: self.init("\(error)", .timeout)
        case .closed: self.init("\(error)", .notConnected)
        case .malformedReply, .system: self.init(printable("\(error)"), .failure)
        }
    }

    private static let certificateAdvice =
        "; check --ca, the authority of the broker's certificate, and --server, a name in it"

    /// Advice about a refusal.
    static func advice(_ reason: ReasonCode) -> String {
        switch reason {
        case .badUserNameOrPassword:
            "; the token is unknown, revoked or expired: make one with martlet token mint"
        case .notAuthorized: "; this token has no right to do that"
        case .clientIdentifierNotValid:
            "; check --device and ids: 1 to 64 bytes, without /, + and #"
        case .sessionTakenOver: "; another client is this device: choose another --device"
        case .topicNameInvalid: "; no such user, group or topic"
        case .topicFilterInvalid: "; + and # stand alone between slashes, # at the end"
        case .packetTooLarge: "; the message is too large for this app"
        case .quotaExceeded:
            "; a queue, a limit or the store is full: martlet refusals tells which"
        case .payloadFormatInvalid: "; the text must be UTF-8"
        default: ""
        }
    }
}
