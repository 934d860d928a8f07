// The help of the tool: one page that names every command, and one page for each verb with all the
// options of its commands. `martlet help VERB` and `--help` after a command print the page of the
// verb.

/// The pages of `martlet help`: the first words of the commands.
enum HelpTopic: String, CaseIterable {
    case send, listen, recall, replace, presence, group, token, password, session, queue
    case wake, `import`, retained, user, app
    case conversations, history, read, applied
    case explain, trace, backup, stats, top
    case `operator`, dashboard, listeners, refusals, log, reload
    case logLevel = "log-level"
    case cluster

    /// The page of a verb.
    var page: String {
        switch self {
        case .send: HelpPages.send
        case .listen: HelpPages.listen
        case .recall, .replace: HelpPages.revisions
        case .presence: HelpPages.presence
        case .group: HelpPages.group
        case .token: HelpPages.token
        case .password: HelpPages.password
        case .wake: HelpPages.wake
        case .import: HelpPages.import
        case .session: HelpPages.session
        case .queue: HelpPages.queue
        case .conversations: HelpPages.conversations
        case .history: HelpPages.history
        case .read: HelpPages.history
        case .applied: HelpPages.applied
        case .retained: HelpPages.retained
        case .user: HelpPages.user
        case .app: HelpPages.app
        case .explain: HelpPages.explain
        case .trace: HelpPages.trace
        case .backup: HelpPages.backup
        case .stats: HelpPages.stats
        case .top: HelpPages.top
        case .operator: HelpPages.operator
        case .dashboard: HelpPages.dashboard
        case .listeners: HelpPages.listeners
        case .refusals: HelpPages.refusals
        case .log: HelpPages.log
        case .reload: HelpPages.reload
        case .logLevel: HelpPages.logLevel
        case .cluster: HelpPages.cluster
        }
    }
}

enum HelpPages {
    static let overview = """
        martlet: send messages, receive messages and administer a Martlet broker

        As a user, with a token:
          martlet send (--to USER[,USER...] | --group GROUP | --broadcast | --topic TOPIC) [TEXT]
          martlet listen [--topic FILTER]... [--json] [--count N]
          martlet recall (MESSAGE-ID | --reference R)
          martlet replace (MESSAGE-ID | --reference R) TEXT
          martlet presence USER
          martlet group (create | join | leave | kick | ban | list | show | meta | allow | history)
          martlet conversations [--unread]
          martlet history (--with USER | --group ID | --topic TOPIC) [--search TEXT]
          martlet read (--with USER | --group ID) NUMBER
          martlet history (read | hide) (--with USER | --group ID) NUMBER
          martlet applied REFERENCE [--code N] [--text TEXT]

        As the operator:
          martlet app (create | list | show | rights | delete)
          martlet app key (add | list | revoke)
          martlet user (add | list | show | delete)
          martlet token (mint | list | revoke)
          martlet password (set | list | expire | revoke)
          martlet wake (set | list | remove | test | log) --user USER
          martlet wake template (set | list | remove | try) [--kind KIND]
          martlet import mosquitto --config FILE [--dry-run]
          martlet session (list | show | watch | kick | delete)
          martlet queue (show | messages | drop | purge) USER
          martlet conversations --user USER [--unread]
          martlet history (--user USER --with USER | --group ID | --topic TOPIC) [--search TEXT]
          martlet history remove (--user USER --with USER | --group ID | --topic TOPIC) NUMBER
          martlet history topics
          martlet retained (list | show | delete) [TOPIC]
          martlet group (create | join | leave | kick | ban | list | show | meta | allow)
          martlet group (history | delete) GROUP
          martlet explain --user USER [--device NAME] ACTION [TARGET]
          martlet trace --user USER [--device NAME] [--payloads] [--seconds N]
          martlet trace (list | stop)
          martlet backup DIRECTORY
          martlet stats [--watch] [--json]
          martlet top [--interval N] [--once] [--json]
          martlet listeners
          martlet refusals [--follow] [--count N]
          martlet log [--follow] [--count N]
          martlet reload
          martlet log-level LEVEL
          martlet cluster (status | step-down)
          martlet operator (add | list | revoke)
          martlet dashboard [NAME] [--role ROLE]

        martlet help VERB explains the commands of a verb, such as martlet help token; --help
        after a command prints the same page. martlet --version prints the version.

        Users give the broker's address and their token: --server, --ca and --token, or
        MARTLET_SERVER, MARTLET_CA and MARTLET_TOKEN. Operators give the broker's data directory
        and an app: --data and --app, or MARTLET_DATA and MARTLET_APP. From another machine they
        give, instead of --data, the address of the broker's HTTP API and an operator's token:
        --server https://HOST:PORT and --token.

        Commands print a table for people and, with --json, one JSON object on each line for
        programs; docs/operating/commands.md names the members. Times are written 90s, 15m, 12h,
        30d or 10y.

        After a signal (Ctrl-C, SIGTERM, SIGHUP) a command disconnects normally and ends; a second
        signal ends it at once.

        Exit codes: 0 success, 1 invalid command line, 2 other failures, 5 no connection, 6 sent,
        but some receivers were refused, 7 sent, but with --wait a receiver told that it did not
        apply the message, or nobody receives it, 27 timeout, 130, 143 and 129 for SIGINT, SIGTERM
        and SIGHUP, 128...255 the broker's reason code, such as 134 (0x86) for an invalid token.
        """

    private static let connection = """
          --server URL         tls://HOST:PORT or tcp://HOST:PORT; the
                               nodes of a cluster with commas between them    or MARTLET_SERVER
          --ca FILE            the trusted authorities, as PEM; the
                               system's if absent                             or MARTLET_CA
          --token TOKEN        the user's credential                          or MARTLET_TOKEN
        """

    private static let ownDevice = """
          --device NAME        the device of the user; if absent, a unique name, so that the command
                               takes over no session
          -W, --timeout TIME   give up after this time, such as 10s or 5m; 60s if absent. A bare
                               number is in seconds
        """

    static let broker = """
          --data DIR           the data directory of a broker on this machine or MARTLET_DATA
          --server URL         instead of --data, the HTTP API of a broker on
                               any machine: https://HOST:PORT, or the nodes
                               of a cluster, with commas between them         or MARTLET_SERVER
          --ca FILE            the trusted authorities of --server, as PEM;
                               the system's if absent                         or MARTLET_CA
          --token TOKEN        the operator's token for --server              or MARTLET_TOKEN
        """

    static let administration = """
        \(broker)
          --app NAME           the app                                        or MARTLET_APP
        """

    static let send = """
        martlet send (--to USER[,USER...] | --group GROUP | --broadcast | --topic TOPIC) [TEXT]
        martlet send --as USER (--to ... | --group GROUP | --broadcast | --topic TOPIC) TEXT

        Sends a message and ends when the broker has acknowledged it: the message is then stored, or
        all its receivers have acknowledged it. Without TEXT every line of standard input is a
        message. The command sends them without waiting for each answer, and ends when all are
        acknowledged. --timeout limits the whole command, including the time that it waits for
        input. If some receivers were refused, for example because of a full queue, the others
        receive the message: the command names or counts the refused receivers and ends with code 6.

          --to USER[,USER...]  to all devices of one user, or of each of a list
          --group GROUP        to the members of a group that you are in
          --broadcast          to every session of the app
          -t, --topic TOPIC    to the subscribers of this topic
          --type N             0 text, 1 image, 2 audio, 3 video, 4 html5, 5...255 your own
          --message-id ID      your own id of the message, 1 to 64 bytes; the result repeats it
          --grade GRADE        transient, durable (default) or once
          --expiry TIME        discard the message after this time: a command that is too late is
                               not carried out. 7 days if absent, as the broker is configured
          --history            keep the message in the conversation; to users or a group
          --no-history         keep it nowhere, whatever the group or the app keeps by default
          --history-only       keep it in the conversation, and deliver it to nobody
          --time MS            its time in Unix milliseconds; with --history-only or --late
          --late               its time is that of a reading that could not be sent earlier
          --receipt            print the message's reference, and ask for receipts: messages to you
                               when receivers have it and when they applied it; to users or a group
          --reference          print the message's reference, by which you can recall it; to users
                               or a group
          --collapse KEY       remove your earlier message with this key from the queues of the same
                               receivers that still have it: only the newest counts; to users or a
                               group
          --wait KIND          wait for the receipts of all receivers, delivered or applied, and
                               print them. After --timeout the command names who is missing;
                               the message still waits for them until it expires
          --json               print references and receipts as JSON, one object on each line
          --attribute KEY=VALUE  a key with a value beside the text, at most 16 and 512 bytes in
                               all; may be repeated
          --mention USER       mention a member of the group; may be repeated
          --mention-all        mention all members of the group
          --only-mentioned     only those get the message whom it mentions
          --priority CLASS     low, normal (default) or high: a transient message of a lower class
                               is dropped first for a client that reads slowly
          --bytes              send the text as bytes, not as a message with a type, and lines of
                               standard input unchanged; only to a topic

        With --as the operator sends one message as a user of --app, whose rights do not apply. The
        user need not be connected, and is a member of the group. --server is then the address of
        the HTTP API, and --token the operator's; without them the broker runs on this machine.
        --device, --timeout, --message-id and --wait are not for --as.

          --as USER            the user whom receivers see as the sender
          --app NAME           the app                                        or MARTLET_APP
          --data DIR           the data directory of a broker on this machine or MARTLET_DATA
          --retain             retain the message on its topic; only with --as

        \(connection)
        \(ownDevice)
        """

    static let listen = """
        martlet listen [--topic FILTER]... [--json] [--count N]

        Prints each message to this user on one line, and acknowledges a message after its line is
        written. The session keeps its subscriptions, and messages wait while the command does not
        run.

          -t, --topic FILTER   also subscribe to this filter, with + and #; may be repeated
          --grade GRADE        the highest grade of these subscriptions; once if absent
          -C, --count N        end after N messages
          --json               one JSON object per message, with its sender and its delivery
          --applied            tell the senders who ask for it that a message is applied when its
                               line is written, always with code 0; a program that may fail
                               runs martlet applied instead
          --state FILE         store the position in the inbox in a file, so that a restart
                               continues after the last printed message
          --expiry TIME        how long the session outlives the command; if absent, as the
                               broker is configured
          --sync pull          messages that history keeps are not delivered: martlet history and
                               martlet conversations show them; push if absent
          --transient-session  end the session with the command: messages do not wait for it
          --will TEXT          the broker sends this message when the command is lost, not when it
                               ends; requires one of these four receivers:
          --will-to USER
          --will-group GROUP
          --will-topic TOPIC
          --will-broadcast
          --will-delay TIME    do not send it if the command reconnects within this time

        \(connection)
          --device NAME        the device of the user; the device without a name if absent
          -W, --timeout TIME   end after this time, with exit code 27; never if absent
        """

    static let revisions = """
        martlet recall (MESSAGE-ID | --reference R) [--detail TEXT]
        martlet replace (MESSAGE-ID | --reference R) TEXT [--detail TEXT]

        Takes a message of yours back, or gives it a new text. Receivers whose devices have not got
        it never do, or get the new text; the others are told. The command says how many users are
        of each kind, and names the others. The message is one that you sent with --reference,
        --receipt, --wait or --collapse, to users or a group.

          MESSAGE-ID           your own id of the message, from --message-id: the latest one with it
          --reference R        the message's reference, 16 hexadecimal digits
          --detail TEXT        why, for the receivers who are told: at most 128 bytes
          --type N             the type of the new text, as in martlet send
          --json               one JSON object: withdrawn, late, and some users in lateUsers

        \(connection)
        \(ownDevice)
        """

    static let presence = """
        martlet presence USER

        Shows whether a user is connected, since when, and with which devices.

          --json               one JSON object

        \(connection)
        \(ownDevice)
        """

    static let group = """
        martlet group create --name NAME [--allow USER[,USER...]] [--meta JSON]
        martlet group join GROUP [--backlog N]
        martlet group leave GROUP
        martlet group list
        martlet group show GROUP
        martlet group kick GROUP USER
        martlet group ban GROUP USER
        martlet group meta GROUP JSON
        martlet group allow GROUP (USER[,USER...] | --everybody)
        martlet group history GROUP (on | off) [--shown N]

        With a token the command acts as that user. With --data, with --server https://HOST:PORT, or
        without a token if MARTLET_DATA is set, it acts as the operator, on any group of --app, with
        the user as the second argument:

        martlet group create --owner USER --name NAME [--allow USER[,USER...]] [--meta JSON]
        martlet group join GROUP USER [--backlog N]
        martlet group leave GROUP USER
        martlet group list [USER]
        martlet group delete GROUP

          create               create a group and print its id; its owner is the first member
          --name NAME          the title of the group, at most 128 bytes
          --allow USER[,...]   the users who may join; everybody if absent
          --meta JSON          data of the group, at most 5120 bytes
          join, leave          join or leave a group; a group ends with its last member
          --backlog N          join: kept messages from before that the member sees, at most as
                               many as the group shows, unless the owner or the operator says it
          kick, ban            remove a member, who is told; after ban the user cannot join again.
                               Only the owner may
          meta, allow          replace the data, or the list of users who may join. Only the owner
                               may
          --everybody          allow: everybody may join again
          history              on: messages are kept unless their senders say no. Only the owner may
          --shown N            history: kept messages from before that new members see (0)
          list, show           list the groups; show one group and its members
          delete               end a group with its history; its members are told as if kicked.
                               Only for the operator
          --owner USER         the owner of the new group; only for the operator
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
        martlet token list [--user USER] [--device NAME] [--batch LABEL] [--limit N]
        martlet token revoke (--id ID | --user USER | --device NAME | --batch LABEL)

        A token is the password of one user. It is printed once, when it is created: the broker
        keeps only its hash. Minting makes the users known, so that messages wait for them. Revoking
        a token ends its connections; it allows no login after that, and wills that were set with
        it are not sent.

        mint
          --user USER          the user of the token; may be repeated, one token for each
          --users FILE         the users of a file, one on each line; - for standard input
          --count N            N users whose names are a prefix and a number
          --prefix TEXT        the prefix, such as dev-
          --first N            the first number; 1 if absent
          --device NAME        bind the tokens to this device
          --expires TIME       the lifetime, such as 30d or 10y; unlimited if absent
          --batch LABEL        a label to select the tokens by, such as a production lot
          --right RIGHT        a right of the tokens, in place of the rights of the app; may be
                               repeated. RIGHT is send:PATTERN, publish:FILTER, subscribe:FILTER,
                               presence:PATTERN, receipts:PATTERN, wake:PATTERN, attach:PATTERN,
                               group:create or broadcast; !RIGHT denies, whatever others allow
          --output FILE        write the tokens to a new file as app,user,device,id,token; only you
                               can read it

        list, revoke
          --id ID              one token, by its public half, as lists and logs show it
          --user USER          the tokens of a user
          --device NAME        the tokens that are bound to a device
          --batch LABEL        the tokens with a label
          --limit N            list: show at most N

          --json               one JSON object per token; revoke: one object
        \(administration)
        """

    static let session = """
        martlet session list [USER] [--connected | --away] [--older-than TIME]
        martlet session watch USER [--device NAME] [--json]
        martlet session (show | kick | delete) [USER] [--device NAME] [--older-than TIME]
                        [--will | --no-will]

        A session is one device of one user: its queue, its subscriptions, its connection. kick
        disconnects it (0x98), and it may connect again; delete ends the session as if it had
        expired. watch prints what happens to the sessions of a user until it is ended: lines of the
        log that name the user, such as logins, ends with their causes and refusals, and each
        second what has changed: the queue, what is under way, and since when nothing arrived.

          --user USER          the user; the same as the argument USER
          --device NAME        the device
          --connected          only sessions with a connection
          --away               only sessions without a connection
          --older-than TIME    only sessions disconnected for at least this long, such as 90d
          --will               kick, delete: send their wills, as for any lost connection; the
                               default
          --no-will            kick, delete: discard their wills
          --limit N            list: show at most N
          --json               one JSON object per session; watch: per event or change; kick,
                               delete: one object
        \(administration)
        """

    static let queue = """
        martlet queue show USER
        martlet queue messages USER [--device NAME] [--contents] [--after NUMBER] [--limit N]
        martlet queue drop USER NUMBER [--device NAME]
        martlet queue purge [USER] [--device NAME] [--away] [--older-than TIME]

        show counts the messages that wait for a user: in the offline queue, until the first session
        receives them, and in the queue of each session. messages lists them one by one: those of
        the device's queue or, without --device, those of the offline queue. drop removes one of
        them, unless its delivery has begun. purge discards the messages of disconnected sessions
        and, without --device, those in the offline queue.

        messages, drop
          --device NAME        the queue of this device; "" for the device without a name
          --contents           messages: show the contents too, at most 16 KiB of each
          --after NUMBER       messages: begin after this number
          --limit N            messages: show at most N

        show, purge
          --user USER          the user; the same as the argument USER
          --device NAME        the queue of this device
          --connected          only sessions with a connection, which purge does not change
          --away               only sessions without a connection
          --older-than TIME    only sessions disconnected for at least this long, such as 90d
          --json               one JSON object per queue or message; purge, drop: one object
        \(administration)
        """

    static let conversations = """
        martlet conversations [--unread] [--limit N]
        martlet conversations --user USER [--unread] [--messages] [--limit N]

        Lists the conversations of the user of a token, or as the operator those of USER, that have
        kept messages (martlet send --history), in the order in which they began: the number of the
        newest message, the number up to which the user has read, and the messages of others after
        it.

          --unread             only conversations with unread messages
          --messages           with the newest message of each
          --limit N            show at most N
          --json               one JSON object per conversation

        As a user:
        \(connection)
        \(ownDevice)

        As the operator:
          --user USER          the user
        \(administration)
        """

    static let history = """
        martlet history (--with USER | --group ID | --topic TOPIC) [--before NUMBER] [--limit N]
                        [--search TEXT] [--from USER]
        martlet history (--user USER --with USER | --group ID | --topic TOPIC) [--before NUMBER]
                        [--limit N] [--search TEXT] [--from USER]
        martlet history remove (--user USER --with USER | --group ID | --topic TOPIC) NUMBER
        martlet history topics [--limit N]
        martlet read (--with USER | --group ID) NUMBER
        martlet history read (--with USER | --group ID) NUMBER, the same
        martlet history hide (--with USER | --group ID) NUMBER

        Shows the messages that two users or a group sent each other and that their senders wanted
        kept (martlet send --history), from the newest to older ones. remove takes one of them out
        of the conversation, for all its readers; inboxes that have it keep it.

        A topic has history if the settings of its app say so (historyTopics of apps); who may
        subscribe to it may read it. topics lists the topics that have kept messages.

        With a token the command shows what its user may read; with --data or an operator's token,
        also the conversations of others.

        read and hide act as the user of a token: all messages up to NUMBER, the number of
        martlet history, are read, or are not shown to this user any more, on all its devices.

          --user USER          as the operator: one of the two users
          --with USER          the other one
          --group ID           the group
          --topic TOPIC        the topic
          --before NUMBER      begin before this number
          --limit N            show at most N
          --search TEXT        only messages that contain this text
          --from USER          only messages of this user
          --json               one JSON object per message

        As the operator:
        \(administration)

        As a user:
        \(connection)
        \(ownDevice)
        """

    static let applied = """
        martlet applied REFERENCE [--code N] [--text TEXT]

        Tells the sender of a message to this user that the message is applied, or why not. The
        sender has asked for it (martlet send --wait applied, --receipt); martlet listen --json
        prints REFERENCE as reference, and "applied" among receipts. The first answer of a user
        counts.

          --code N             0 (default): done; 1...127: your own; 128...255: a failure
          --text TEXT          for the sender, at most 128 bytes
          --json               print one JSON object
        \(connection)
        \(ownDevice)
        """

    static let retained = """
        martlet retained list [FILTER] [--limit N]
        martlet retained show TOPIC
        martlet retained delete FILTER

        A retained message is the last one of its topic, which later subscribers receive. list
        shows those whose topics match a filter, with + and #; all if it is absent. show also shows
        the content. delete removes them, and sends nothing to subscribers.

          --limit N            list: show at most N
          --json               one JSON object per message; delete: one object
        \(administration)
        """

    static let user = """
        martlet user add USER...
        martlet user list [--limit N]
        martlet user show USER
        martlet user delete USER [--force]

        add makes users known without a token, so that messages wait for them. list shows the users
        of the app, show one of them with its devices: their connections, the credentials that these
        presented, and their queues. delete removes a user with its credentials, sessions, queues,
        conversations with others, and the groups that it owns. It refuses while a session is
        connected, or if messages, groups or conversations would be lost, and says how many.

          --limit N            list: show at most N
          --force              delete: also what would be lost
          --json               one JSON object per user
        \(administration)
        """

    static let app = """
        martlet app create NAME [RIGHT]...
        martlet app list
        martlet app show NAME
        martlet app rights RIGHT...
        martlet app delete NAME [--force]
        martlet app key add NAME --role ROLE [--right RIGHT]... [--expires TIME]
        martlet app key list
        martlet app key revoke NAME

        Apps are separate: users of different apps share no groups and exchange no messages. With
        a key of an app, which is printed once, a back end logs in as users and uses the HTTP
        API. The first key, which app create makes, has the name default and the role operate.

          RIGHT                a right of the app's users whose token names no rights:
                               send:PATTERN, publish:FILTER, subscribe:FILTER, presence:PATTERN,
                               receipts:PATTERN, wake:PATTERN, attach:PATTERN, group:create,
                               broadcast. %u stands for the user, %d for the device. Without a
                               RIGHT, a new app has all rights but attach, wake and broadcast.
                               !RIGHT denies
          rights               replace all rights, for connected users too; those that remain must
                               be named again. Subscriptions that are not allowed any more end
          delete               delete an app with its users, credentials, sessions, queues, groups,
                               retained messages and conversations, in parts, with a progress
                               line. From the beginning the app admits no login and no message.
                               Repeat it if it was interrupted. It refuses if connections,
                               messages, groups or conversations would be lost, and says how many
          --force              delete: also what would be lost
          --role ROLE          what the key may do within the app: view: read over HTTP; operate:
                               change users, tokens, sessions, queues and groups, send, and log
                               in as users
          --right RIGHT        a right of the key's connections and sends; may be repeated. If
                               absent, the key logs in as any user, with the app's rights;
                               otherwise as those whom attach:PATTERN names
          --expires TIME       refuse the key after this time, such as 90d; never if absent
          key revoke           refuse a key and end its connections
          --json               one JSON object per app or key
        \(administration)
        """

    static let `operator` = """
        martlet operator add NAME --role ROLE [--expires TIME]
        martlet operator list
        martlet operator revoke NAME

        Operators use the HTTP API of https:// listeners with a token, which is printed once;
        docs/operating/api.md lists what they can do. A role may do what the ones before it may.

          --role ROLE          view: read; operate: change users, tokens, sessions, queues and
                               groups; own: change apps, rights and operators, write backups,
                               reload the configuration, change the level of the log
          --expires TIME       refuse the token after this time, such as 90d; never if absent
          --json               one JSON object per operator
        \(broker)
        """

    static let dashboard = """
        martlet dashboard [NAME] [--role ROLE]

        Prints a link to the dashboard that signs in once, within ten minutes. The browser then has
        a token that is refused after twelve hours, when the broker stops, and after martlet
        operator revoke NAME.

          NAME                 whom the log names; the user of this command if absent
          --role ROLE          view, operate or own; own if absent
          --json               one JSON object
        \(broker)
        """

    static let listeners = """
        martlet listeners

        Lists the listeners: what they serve, how many connections are open, and the subject of the
        certificate with the whole days until it expires.

          --json               one JSON object per listener
        \(broker)
        """

    static let reload = """
        martlet reload

        Reads the configuration, certificates, keys and lists again, as SIGHUP does, and prints the
        keys that have changed and those that need a restart. If there is an error, nothing changes,
        and the command prints it.

          --json               one JSON object
        \(broker)
        """

    static let logLevel = """
        martlet log-level LEVEL

        Changes the level of the broker's log until the next reload or restart.

          LEVEL                error, warning, info or debug
          --json               one JSON object
        \(broker)
        """

    static let explain = """
        martlet explain --user USER [--device NAME] ACTION [TARGET]
        martlet explain --key NAME attach USER

        Shows which right allows an action of a device, or that none does, and the origin of its
        rights: for its connection, or for its next login if it is not connected. A TOPIC or
        FILTER may be an address in the form of MQTT: $u/USER, $g/GROUP, $b, $share/NAME/FILTER,
        $presence/USER, $unread/USER, or a request of MQTT: $api/OPERATION, $api/reply. With --key,
        shows whether a key of the app logs in as a user.

          ACTION               send USER, publish TOPIC, subscribe FILTER, presence USER,
                               receipts USER (or GROUP), attach USER, broadcast or
                               create-group, also spelled group:create
          --user USER          the user
          --device NAME        the device of the user
          --key NAME           the key
          --json               one JSON object
        \(administration)
        """

    static let trace = """
        martlet trace --user USER [--device NAME] [--payloads] [--seconds N] [--json]
        martlet trace list [--json]
        martlet trace stop TRACE

        trace prints the packets of the user's devices as they pass, in both directions, one on each
        line: the time (UTC), the connection, > from the device, < to the device or * for an event,
        the packet, its bytes, and its fields. Refused logins that name the user are shown too.
        Passwords, tokens and keys are never shown. If more packets pass than a trace keeps, the
        command says how many are not shown.

        The log has a line for each trace, and list shows all operators which traces there are and
        who started them. stop ends one. A trace ends by itself after --seconds, or 30 seconds after
        nobody reads it any more; there may be 8.

          --user USER          the user; need not be known
          --device NAME        only this device
          --payloads           show the beginning of payloads
          --seconds N          how long, 1 to 3600; 60 if absent
          --json               print JSON

        \(administration)
        """

    static let backup = """
        martlet backup DIRECTORY

        Copies the store of a running broker, as of the last commit, into a new or empty directory
        on the broker's machine, and checks the copy. Waits until the copy is complete; if this
        command is interrupted, the backup continues, and the broker's log records its result.
        Restore it with: martletd --restore DIRECTORY --data NEW

          --json               one JSON object
        \(broker)
        """

    static let stats = """
        martlet stats [--watch] [--json]

        Shows the broker's counters and gauges; docs/operating/statistics.md explains them.

          --watch              print them every second, with the change in between
          --json               one JSON object; with --watch one every second
        \(broker)
        """
}
