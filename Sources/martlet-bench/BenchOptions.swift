// The command line of the load harness. Letters and meanings follow emqtt_bench, so that results
// can be compared; the long names are descriptive.

import CommandLineOptions

enum BenchOption: String, OptionRules {
    case host
    case port
    case dialect
    case count
    case publishers
    case topic
    case qos
    case size
    case history
    case window
    case rate
    case messageInterval = "interval-of-msg"
    case limit
    case seconds
    case warmUp = "warm-up"
    case sleep
    case expiry
    case startNumber = "startnumber"
    case prefix
    case user
    case password
    case connectRate = "conn-rate"
    case connectInterval = "interval"
    case sourceAddresses = "ifaddr"
    case webSocket = "websocket"
    case tls
    case authorityFile = "cafile"
    case insecure
    case resume
    case certificate = "cert"
    case key
    case brokerProcess = "broker-pid"
    case allocationCounts = "malloc-count"
    case json
    case html
    case quiet

    var shape: OptionShape {
        switch self {
        case .history, .webSocket, .tls, .insecure, .resume, .json, .quiet: .flag
        case .host, .port, .dialect, .count, .publishers, .topic, .qos, .size, .window, .rate,
            .messageInterval, .limit, .seconds, .warmUp, .sleep, .expiry, .startNumber, .prefix,
            .user, .password, .connectRate, .connectInterval, .sourceAddresses, .authorityFile,
            .certificate, .key, .brokerProcess, .allocationCounts, .html:
            .value
        }
    }

    var letter: Character? {
        switch self {
        case .host: "h"
        case .port: "p"
        case .dialect: "V"
        case .count: "c"
        case .topic: "t"
        case .qos: "q"
        case .size: "s"
        case .window: "F"
        case .messageInterval: "I"
        case .limit: "L"
        case .expiry: "x"
        case .startNumber: "n"
        case .user: "u"
        case .password: "P"
        case .connectRate: "R"
        case .connectInterval: "i"
        case .tls: "S"
        case .publishers, .history, .rate, .seconds, .warmUp, .sleep, .prefix, .sourceAddresses,
            .webSocket, .authorityFile, .insecure, .resume, .certificate, .key, .brokerProcess,
            .allocationCounts, .json, .html, .quiet:
            nil
        }
    }

    static let helpPage = """
        martlet-bench: generate load for a broker and measure its cost

          martlet-bench fanout  -c 1000 -F 16        one publisher, 1000 receivers
          martlet-bench unicast -c 500               500 pairs
          martlet-bench fanin   --publishers 100     100 publishers, one receiver
          martlet-bench broadcast -c 1000            to every session of the app (mrt)
          martlet-bench group   -c 1000              to a group of 1000 (mrt)
          martlet-bench connect -c 10000             connects per second, idle connections
          martlet-bench offline -c 100 -L 1000       fill the queues of 100 disconnected sessions,
                                                     then drain them
          martlet-bench will    -c 5000              cut 5000 connections at once: their wills
          martlet-bench churn   -c 200               connect, subscribe, publish, cut, repeat
          martlet-bench sleepy  -c 1000 --sleep 5    devices that wake, drain their queue and sleep
          martlet-bench slow    -c 1000              fanout; one reader in a hundred stalls
          martlet-bench floor   -c 1000 -F 16        the fan-out on bare sockets, without a broker
          martlet-bench compare FILE...              scenario files, several brokers in turn; see
                                                     martlet-bench compare --help

          -h, --host HOST          the broker (localhost)
          -p, --port PORT          its port (1883; 8883 with --tls)
          -V, --dialect NAME       mrt, mqtt311 (or 4) or mqtt5 (or 5) (mrt)
          -c, --count N            receivers, pairs or connections (100; fanin 1; will 1000)
          --publishers N           publishers of fanout and fanin (1; fanin 100). offline: one for
                                   all receivers, or one for each
          -t, --topic TOPIC        plain topic; %i is the number of the pair (bench/f, bench/%i);
                                   unicast in mrt sends to users and uses no topic
          -q, --qos N              0, 1 or 2; in mrt transient, durable, once (0)
          -s, --size BYTES         payload, at least 20 (100)
          --history                messages to users and groups are kept in history (mrt, -q 1 or 2)

          -F, --window N           closed loop: outstanding messages of each publisher (16)
          --rate N                 open loop instead: messages per second of each publisher; latency
                                   counts from the scheduled time of sending (sleepy: 10); in
                                   offline, to the broker's acknowledgement
          -I, --interval-of-msg MS the same, as milliseconds between messages of a publisher
          --seconds S              duration of the measurement (5)
          --warm-up S              time before the measurement (1)
          -L, --limit N            offline: messages of each publisher (1000)
          --sleep S                sleepy: time between two wake-ups of a device (5)

          -x, --expiry SECONDS     session expiry; 0 is a clean session. In MQTT 3.1.1 any other
                                   value is a persistent session (0; offline and sleepy 3600)
          -n, --startnumber N      number of the first client (0)
          --prefix TEXT            prefix of the client ids (bench)
          -u, --user NAME          MQTT user name
          -P, --password TEXT      MQTT password; in mrt a token
          -R, --conn-rate N        connects per second (as fast as the broker answers)
          -i, --interval MS        the same, as milliseconds between connects
          --ifaddr A,B             source addresses; each adds about 28,000 connections
          --websocket              MQTT over WebSocket, at the path /mqtt
          -S, --tls                TLS 1.2 or 1.3
          --cafile FILE            trusted authorities, in place of the system's
          --insecure               do not verify the broker's certificate
          --resume                 connect: resume one TLS session for all connections
          --cert FILE, --key FILE  floor with --tls: the server's certificate chain and key

          --broker-pid PID         read the broker's CPU time, memory and descriptors from /proc
          --malloc-count FILE      read the counters that libMallocCount writes for the broker
          --json                   print one JSON object instead of the report
          --html FILE              also write a page with charts, in a single file
          --quiet                  print no line per second and no progress
          --help                   print this page and exit; also -h without a scenario
          --version                print the version and exit; without a scenario

        floor sends the bytes of MQTT 3.1.1. Exit codes: 0 all messages were delivered once and in
        order, 1 invalid command line, 2 other failures, 5 no broker, 128 plus the number of the
        signal that ended it.
        """
}
