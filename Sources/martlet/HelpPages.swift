// The help of the tool, by hand: one page that names every command, and one page for each verb with
// all that its commands understand. `martlet help VERB` and `--help` behind a command show the
// latter.

/// What `martlet help` can be asked about: the first words of the commands.
enum HelpTopic: String, CaseIterable {
    case send, listen, presence, group, token, session, queue, user, app, explain, backup, stats

    /// The page of a verb.
    var page: String {
        switch self {
        case .send: HelpPages.send
        case .listen: HelpPages.listen
        case .presence: HelpPages.presence
        case .group: HelpPages.group
        case .token: HelpPages.token
        case .session: HelpPages.session
        case .queue: HelpPages.queue
        case .user: HelpPages.user
        case .app: HelpPages.app
        case .explain: HelpPages.explain
        case .backup: HelpPages.backup
        case .stats: HelpPages.stats
        }
    }
}

enum HelpPages {
    static let overview = """
        martlet: send, listen and administrate with a Martlet broker

        As a user, with a token:
          martlet send (--to USER[,USER...] | --group GROUP | --broadcast | --topic TOPIC) [TEXT]
          martlet listen [--topic FILTER]... [--json] [--count N]
          martlet presence USER
          martlet group (create | join | leave | kick | ban | list | show | meta | allow)

        As the operator, on the broker's machine:
          martlet app (create | list | show | rights)
          martlet user add USER...
          martlet token (mint | list | revoke)
          martlet session (list | show | kick | delete)
          martlet queue (show | purge) USER
          martlet group (create | join | leave | kick | ban | list | show | meta | allow)
          martlet explain --user USER [--device NAME] ACTION [TARGET]
          martlet backup DIRECTORY
          martlet stats [--watch] [--json]

        martlet help VERB, or --help after a command, explains a verb, such as martlet help token;
        martlet --version prints the version.

        Users give the broker's address and their token: --server, --ca and --token, or
        MARTLET_SERVER, MARTLET_CA and MARTLET_TOKEN. Operators give the broker's data directory
        and an app: --data and --app, or MARTLET_DATA and MARTLET_APP.

        Commands print a table for people and, with --json, one JSON object on each line for
        programs; docs/operating/commands.md names the members. Times are written 90s, 15m, 12h,
        30d or 10y.

        A signal (Ctrl-C, SIGTERM, SIGHUP) ends a command in order; a second one ends it at once.

        Exit codes: 0 success, 1 invalid command line, 2 other failures, 5 no connection, 6 sent,
        but some receivers of the list were refused, 27 timeout, 130, 143 and 129 for SIGINT,
        SIGTERM and SIGHUP, 128...255 the broker's reason, such as 134 (0x86) for a wrong token.
        """

    private static let connection = """
          --server URL         tls://HOST:PORT or tcp://HOST:PORT             or MARTLET_SERVER
          --ca FILE            the authorities that may have signed the
                               broker's certificate; the system's if absent   or MARTLET_CA
          --token TOKEN        who you are                                    or MARTLET_TOKEN
        """

    private static let ownDevice = """
          --device NAME        which of the user's devices this is; without it a name of its own,
                               so that it takes nobody's session over
          -W, --timeout TIME   give up after this time, such as 10s or 5m; 60s if absent. A bare
                               number is seconds
        """

    private static let administration = """
          --data DIR           the data directory of a running broker         or MARTLET_DATA
          --app NAME           the app                                        or MARTLET_APP
        """

    static let send = """
        martlet send (--to USER[,USER...] | --group GROUP | --broadcast | --topic TOPIC) [TEXT]

        Sends a message and ends when the broker has acknowledged it: then it is stored, or with
        its receivers. Without TEXT every line of standard input is a message; all are on their
        way at once, and the command ends when all are acknowledged. Lines may come as slowly as
        they like; --timeout ends the command also while it waits for one. If some receivers were
        refused, as for a full queue, the others have the message: the command names or counts the
        refused receivers and ends with code 6.

          --to USER[,USER...]  to all devices of one user, or of each of a list
          --group GROUP        to the members of a group that you are in
          --broadcast          to every session of the app
          -t, --topic TOPIC    to the subscribers of this topic
          --type N             0 text, 1 image, 2 audio, 3 video, 4 html5, 5...255 your own
          --message-id ID      your own id of the message, 1 to 64 bytes, which the receipt
                               repeats
          --grade GRADE        transient, durable (default) or once
          --expiry TIME        discard the message after this time
          --bytes              send the text as plain bytes, and lines of standard input exactly as
                               they are; only to a topic

        \(connection)
        \(ownDevice)
        """

    static let listen = """
        martlet listen [--topic FILTER]... [--json] [--count N]

        Prints what is sent to you, one line each, and acknowledges a message when its line is
        written. Subscriptions stay, and messages wait while the command does not run.

          -t, --topic FILTER   subscribe to this too, with + and #; may be repeated
          --grade GRADE        the most that these are delivered with: once (default)
          -C, --count N        end after N messages
          --json               one JSON object per message: the receiver's, and where it came from
          --state FILE         keep the place in the inbox in a file, so that a restart goes on
                               exactly after what was printed
          --expiry TIME        how long messages wait while the command does not run
          --transient-session  leave no session behind: only what arrives meanwhile is seen
          --will TEXT          sent for you when this command is lost, not when it ends; to whom:
          --will-to USER       one of these four
          --will-group GROUP
          --will-topic TOPIC
          --will-broadcast
          --will-delay TIME    not sent if it is back within this time

        \(connection)
          --device NAME        which of the user's devices this is; none if absent
          -W, --timeout TIME   end after this time, with exit code 27; never if absent
        """

    static let presence = """
        martlet presence USER

        Shows whether a user is online, since when, and with which devices.

          --json               one JSON object

        \(connection)
        \(ownDevice)
        """

    static let group = """
        martlet group create --name NAME [--allow USER[,USER...]] [--meta JSON]
        martlet group join GROUP
        martlet group leave GROUP
        martlet group list
        martlet group show GROUP
        martlet group kick GROUP USER
        martlet group ban GROUP USER
        martlet group meta GROUP JSON
        martlet group allow GROUP (USER[,USER...] | --everybody)

        With a token you act as that user. With --data, or without a token where MARTLET_DATA is
        set, you are the operator: for any group of --app, with the user who is meant behind it:

        martlet group create --owner USER --name NAME [--allow USER[,USER...]] [--meta JSON]
        martlet group join GROUP USER
        martlet group leave GROUP USER
        martlet group list [USER]

          create               makes a group and prints its id; its owner is the first member
          --name NAME          its name for people, at most 128 bytes
          --allow USER[,...]   who may join; everybody if absent
          --meta JSON          the group's own data, at most 5120 bytes
          join, leave          in, and out; with its last member a group ends
          kick, ban            takes a member out and tells it; ban keeps it out. The owner's
          meta, allow          alone, as are these, which replace the data, and who may join
          --everybody          allow: everybody may join again
          list, show           the groups; one group and its members
          --owner USER         the operator's: whose group it is
          --json               one JSON object per line

        As a user:
        \(connection)
        \(ownDevice)

        As the operator:
        \(administration)
        """

    static let token = """
        martlet token mint --user USER [--user USER]... [--expires 10y]
        martlet token mint --count N --prefix TEXT [--output FILE.csv]
        martlet token list [--user USER] [--device NAME] [--batch LABEL]
        martlet token revoke (--id ID | --user USER | --device NAME | --batch LABEL)

        A token lets its bearer in as one user. It is shown once, when it is made: the broker
        keeps its hash. Minting makes users known, so that messages wait for them. A revoked token
        allows no login any more, and its connections end; wills that were set with it are not
        sent.

        mint
          --user USER          whose token; may be repeated, one line for each
          --users FILE         the users of a file, one on each line; - for standard input
          --count N            N users whose ids are a prefix and a number
          --prefix TEXT        the prefix, such as dev-
          --first N            the first number: 1
          --device NAME        binds the tokens to this device
          --expires TIME       such as 30d or 10y; for ever if absent. --expiry is the same
          --batch LABEL        to find them by, such as a production lot
          --right RIGHT        what their bearers may do, instead of what the app's users may; may
                               be repeated. RIGHT is send:PATTERN, publish:FILTER,
                               subscribe:FILTER, presence:PATTERN, attach:PATTERN, group:create
                               or broadcast
          --output FILE        write them to a new file as app,user,device,id,token; only you can
                               read it

        list, revoke
          --id ID              the public half of one token, as lists and logs show it
          --user USER          all tokens of a user
          --device NAME        those that are bound to a device
          --batch LABEL        those with a label

          --json               one JSON object per token, or for the whole
        \(administration)
        """

    static let session = """
        martlet session list [USER] [--connected | --away] [--older-than TIME]
        martlet session (show | kick | delete) [USER] [--device NAME] [--older-than TIME]
                        [--will | --no-will]

        A session is one device of one user: its queue, its subscriptions, its connection. One
        that is kicked (0x98) may come back; one that is deleted is as if it had expired.

          --user USER          the user; the same as the word USER
          --device NAME        the device
          --connected          only those with a connection
          --away               only those without
          --older-than TIME    away for at least this long, such as 90d
          --will               kick, delete: their wills are sent, as for any lost connection; this
                               is the default
          --no-will            kick, delete: their wills are discarded
          --json               one JSON object per session, or for the whole
        \(administration)
        """

    static let queue = """
        martlet queue show USER
        martlet queue purge [USER] [--device NAME] [--away] [--older-than TIME]

        Shows the messages that wait for a user: in the offline queue, until the first session
        receives them, and in the queue of each session. A purge discards the messages of sessions
        that are away and, without --device, those in the offline queue.

          --user USER          the user; the same as the word USER
          --device NAME        one device's queue
          --connected          only those with a connection; a purge leaves these alone
          --away               only those without
          --older-than TIME    away for at least this long, such as 90d
          --json               one JSON object per queue, or for the whole
        \(administration)
        """

    static let user = """
        martlet user add USER...

        Makes users known without a token, so that messages wait for them.

          --json               one JSON object per user
        \(administration)
        """

    static let app = """
        martlet app create NAME [RIGHT]...
        martlet app list
        martlet app show NAME
        martlet app rights RIGHT...

        Apps are separate: users of different apps share no groups and exchange no messages. An
        app's key, shown once, lets back ends log in as any user.

          RIGHT                what its users may do unless their token says otherwise:
                               send:PATTERN, publish:FILTER, subscribe:FILTER, presence:PATTERN,
                               attach:PATTERN, group:create, broadcast. %u stands for the user,
                               %d for the device. A new app's users may do all but broadcast.
          rights               replaces them all, for those who are connected too
          --json               one JSON object per app
        \(administration)
        """

    static let explain = """
        martlet explain --user USER [--device NAME] ACTION [TARGET]

        Shows which right allows an action of a device, or that none does, and the origin of its
        rights: for its connection, or for its next login if it is not connected. A TOPIC or
        FILTER may be an address in the form of MQTT: $u/USER, $g/GROUP, $b, $share/NAME/FILTER,
        $presence/USER.

          ACTION               send USER, publish TOPIC, subscribe FILTER, presence USER,
                               broadcast or create-group
          --user USER          whose right
          --device NAME        which of the user's devices
          --json               one JSON object
        \(administration)
        """

    static let backup = """
        martlet backup DIRECTORY

        Copies the store of a running broker, as it is after the last commit, into a directory on
        its machine that is new or empty, and checks the copy. Waits until it is done; if this
        command is interrupted, the backup continues, and the broker's log records its result.
        Restore it with: martletd --restore DIRECTORY --data NEW

          --data DIR           the data directory of a running broker         or MARTLET_DATA
          --json               one JSON object
        """

    static let stats = """
        martlet stats [--watch] [--json]

        Shows the broker's counters and gauges; docs/operating/statistics.md says what they mean.

          --watch              again every second, with the change in between
          --json               one JSON object, each second one with --watch
          --data DIR           the data directory of a running broker         or MARTLET_DATA
        """
}
