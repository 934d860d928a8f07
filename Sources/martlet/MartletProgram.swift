// From arguments to an exit code: picks the command, runs it, and puts every failure into words
// that say what to do next.

import Administration
import CommandLineOptions
import MartletClient

/// The commands, as typed.
enum Command: String, CaseIterable {
    case send
    case listen
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
    case tokenMint = "token mint"
    case tokenList = "token list"
    case tokenRevoke = "token revoke"
    case sessionList = "session list"
    case sessionShow = "session show"
    case sessionKick = "session kick"
    case sessionDelete = "session delete"
    case queueShow = "queue show"
    case queuePurge = "queue purge"
    case appShow = "app show"
    case appRights = "app rights"
    case explain
    case backup
    case appCreate = "app create"
    case appList = "app list"
    case userAdd = "user add"
    case stats
}

/// A failure of a command: what is told, and the exit code.
struct CommandFailure: Error {
    let message: String
    let code: ExitCode

    init(_ message: String, _ code: ExitCode) {
        self.message = message
        self.code = code
    }
}

enum MartletProgram {
    static func run(_ arguments: ArraySlice<String>) async -> ExitCode {
        var arguments = arguments
        switch arguments.first {
        case "--help", "help":
            StandardStream.output.print(helpPage)
            return .success
        case "--version":
            StandardStream.output.print("martlet 0.1.0")
            return .success
        default: break
        }
        do {
            let command = try Command.takeSubcommand(from: &arguments)
            try await run(command, arguments)
            return .success
        } catch let error as UsageError {
            StandardStream.error.print("martlet: \(error.message)\nSee martlet --help")
            return .usage
        } catch let failure as CommandFailure {
            StandardStream.error.print("martlet: \(failure.message)")
            return failure.code
        } catch {
            // Commands put everything else into one of the two.
            preconditionFailure("an error without a sentence: \(error)")
        }
    }

    private static func run(_ command: Command, _ arguments: ArraySlice<String>) async throws {
        do {
            switch command {
            case .send: try await SendCommand.run(arguments)
            case .listen: try await ListenCommand.run(arguments)
            case .presence: try await PresenceCommand.run(arguments)
            case .groupCreate, .groupJoin, .groupLeave, .groupKick, .groupBan, .groupList,
                .groupShow, .groupMeta, .groupAllow:
                try await GroupCommand.run(command, arguments)
            case .tokenMint: try TokenMintCommand.run(arguments)
            case .tokenList: try TokenListCommand.run(arguments)
            case .tokenRevoke: try TokenRevokeCommand.run(arguments)
            case .sessionList: try SessionListCommand.run(arguments)
            case .sessionShow: try SessionShowCommand.run(arguments)
            case .sessionKick: try SessionKickCommand.run(arguments)
            case .sessionDelete: try SessionDeleteCommand.run(arguments)
            case .queueShow: try QueueShowCommand.run(arguments)
            case .queuePurge: try QueuePurgeCommand.run(arguments)
            case .appShow: try AppShowCommand.run(arguments)
            case .appRights: try AppRightsCommand.run(arguments)
            case .explain: try ExplainCommand.run(arguments)
            case .backup: try BackupCommand.run(arguments)
            case .appCreate: try AppCreateCommand.run(arguments)
            case .appList: try AppListCommand.run(arguments)
            case .userAdd: try UserAddCommand.run(arguments)
            case .stats: try StatsCommand.run(arguments)
            }
        } catch let error as MartletError {
            throw CommandFailure(error)
        } catch let error as AdministrationError {
            throw CommandFailure(error)
        } catch is HelpRequest {
            StandardStream.output.print(helpPage)
        }
    }

    static let helpPage = """
        martlet: send, listen and administrate with a Martlet broker

          martlet send (--to USER[,USER...] | --group GROUP | --broadcast | --topic TOPIC) [TEXT]
          martlet listen [--topic FILTER]... [--json] [--count N]
          martlet presence USER
          martlet group create --name NAME [--allow USER[,USER...]] [--meta JSON]
          martlet group join GROUP
          martlet group leave GROUP
          martlet group list
          martlet group show GROUP
          martlet group kick GROUP USER
          martlet group ban GROUP USER
          martlet group meta GROUP JSON
          martlet group allow GROUP (USER[,USER...] | --everybody)
          martlet token mint --user USER [--user USER]... [--expiry 10y]
          martlet token list [--user USER] [--device NAME] [--batch LABEL]
          martlet token revoke (--id ID | --user USER | --device NAME | --batch LABEL)
          martlet session list [USER] [--connected | --away] [--older-than TIME]
          martlet session (show | kick | delete) [USER] [--device NAME] [--older-than TIME]
          martlet queue (show | purge) USER
          martlet user add USER...
          martlet app create NAME [RIGHT]...
          martlet app list
          martlet app show NAME
          martlet app rights RIGHT...
          martlet explain --user USER [--device NAME] ACTION [TARGET]
          martlet backup DIRECTORY
          martlet stats [--watch] [--json]

        Where the broker is (send, listen, presence, group); a shell gets them from dev.env:
          --server URL         tls://HOST:PORT or tcp://HOST:PORT             or MARTLET_SERVER
          --ca FILE            the authorities that may have signed the
                               broker's certificate; the system's if absent   or MARTLET_CA
          --token TOKEN        who you are                                    or MARTLET_TOKEN
          --device NAME        which of the user's devices this is; all but listen use a name of
                               their own, so that they take nobody's session over
          -W, --timeout TIME   give up after this time, such as 10s or 5m

        Where its data is (all other commands); they talk to the broker that runs there:
          --data DIR           the broker's data directory                    or MARTLET_DATA
          --app NAME           the app                                        or MARTLET_APP

        send
          --to USER[,USER...]  to all devices of one user, or of each of a list
          --group GROUP        to the members of a group that you are in
          --broadcast          to every session of the app
          -t, --topic TOPIC    to who subscribes to this topic
          --type N             0 text, 1 image, 2 audio, 3 video, 4 html5, 5...255 your own
          --message-id ID      your own id of the message, shown in the broker's log
          --grade GRADE        transient, durable (default) or once
          --expiry TIME        the message is worth nothing after this time
          --bytes              send the text as plain bytes; only to a topic
          TEXT                 the message; without it every line of standard input is one. Each
                               is sent at once, and the command ends when all are acknowledged.

        listen
          -t, --topic FILTER   subscribe to this too, with + and #; may be repeated
          --grade GRADE        the most that these are delivered with: once (default)
          -C, --count N        end after N messages
          --json               one JSON object per message: the receiver's, and where it came from
          --state FILE         keep the place in the inbox in a file, so that a restart goes on
                               exactly after what was printed
          --expiry TIME        how long mail is kept while nobody listens
          --transient-session  leave no session behind: only what arrives meanwhile is seen
          --will TEXT          sent for you when this command is lost, not when it ends; to whom:
          --will-to USER       one of these four
          --will-group GROUP
          --will-topic TOPIC
          --will-broadcast
          --will-delay TIME    not sent if it is back within this time

        group
          create               makes a group that you own, and prints its id
          --name NAME          its name for people
          --allow USER[,...]   who may join; everybody if absent
          --meta JSON          the group's own data, at most 5120 bytes
          join, leave          puts you in, takes you out
          kick, ban            takes a member out; ban keeps them out. The owner's alone, as are
          meta, allow          which replace the group's data, and who may join
          --everybody          allow: everybody may join again
          list, show           your groups; one group and its members
          --json               list and show: one JSON object per line

        token mint
          --user USER          whose token; may be repeated, one line for each
          --device NAME        binds the tokens to this device
          --expiry TIME        such as 30d or 10y; for ever if absent
          --batch LABEL        to find them by, such as a production lot
          --right RIGHT        what their bearers may do, instead of what the app's users may; may
                               be repeated. RIGHT is send:PATTERN, publish:FILTER, subscribe:FILTER,
                               presence:PATTERN, attach:PATTERN, group:create or broadcast
          --json               one JSON object per token

        token list, token revoke
          --id ID              the public half of one token, as lists and logs show it
          --json               one JSON object per token

        session, queue
          --older-than TIME    away for at least this long, such as 90d
          --connected, --away  only those
          --json               one JSON object per session
          A kicked session (0x98) may come back; a deleted one is as if it had expired. A purge
          throws away what waits for sessions that are away.

        explain
          ACTION               send USER, publish TOPIC, subscribe FILTER, presence USER,
                               broadcast or create-group

        stats
          --watch              again every second, with the change in between
          --json               one JSON object

        Exit codes: 0 well, 1 wrong use, 2 other failures, 5 no connection, 27 the time is over,
        128...255 the broker's reason, such as 134 (0x86) for a wrong token. A message that some
        receivers of a list were refused is sent to the others, and ends with the first's reason.
        """
}

/// `--help` after a command.
struct HelpRequest: Error {}

extension CommandFailure {
    init(_ error: MartletError) {
        switch error {
        case .invalid(let text): self.init(text, .usage)
        case .refused(let reason, _), .stopped(let reason):
            let code = reason.isFailure ? ExitCode.refused(reason: reason.rawValue) : .failure
            self.init("\(error)\(Self.advice(reason))", code)
        case .unreachable(let text):
            let advice =
                text.contains("certificate")
                ? "; check --ca: it must name the authority of the broker's certificate"
                : "; is martletd running there? See --server"
            self.init("no connection to \(text)\(advice)", .notConnected)
        case .notConnected, .closed: self.init("\(error)", .notConnected)
        case .tooManySends, .cancelled, .system: self.init("\(error)", .failure)
        }
    }

    init(_ error: AdministrationError) {
        switch error {
        case .notRunning:
            self.init("\(error); say where it is with --data or MARTLET_DATA", .notConnected)
        case .refused(let refusal):
            self.init("\(error)", .refused(reason: refusal.reason))
        case .timedOut: self.init("\(error)", .timeout)
        case .closed: self.init("\(error)", .notConnected)
        case .malformedReply, .system: self.init("\(error)", .failure)
        }
    }

    /// What a person can do about a refusal.
    static func advice(_ reason: ReasonCode) -> String {
        switch reason {
        case .badUserNameOrPassword:
            "; the token is unknown, revoked or expired: make one with martlet token mint"
        case .notAuthorized: "; this token has no right to do that"
        case .clientIdentifierNotValid: "; check --device and ids: no / + # in them"
        case .sessionTakenOver: "; another client is this device: choose another --device"
        case .topicNameInvalid:
            "; no such user, or not a topic: make a user known with martlet user add"
        case .topicFilterInvalid: "; + and # stand alone between slashes, # at the end"
        case .packetTooLarge: "; the message is too large for this app"
        case .quotaExceeded: "; a queue or the store is full: try again later"
        case .payloadFormatInvalid: "; the text must be UTF-8"
        default: ""
        }
    }
}
