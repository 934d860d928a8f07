// The command line of the load harness. Letters and meanings follow emqtt_bench, so that results
// can be put side by side; long names say what they are.

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
        case .tls, .insecure, .resume, .json, .quiet: .flag
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
        case .publishers, .rate, .seconds, .warmUp, .sleep, .prefix, .sourceAddresses,
            .authorityFile, .insecure, .resume, .certificate, .key, .brokerProcess,
            .allocationCounts, .json, .html, .quiet:
            nil
        }
    }

    static let helpPage = """
        martlet-bench: load for a broker, and what it costs

          martlet-bench fanout  -c 1000 -F 16        one publisher, 1000 receivers
          martlet-bench unicast -c 500               500 pairs
          martlet-bench fanin   --publishers 100     100 publishers, one receiver
          martlet-bench broadcast -c 1000            to every session of the app (mrt)
          martlet-bench group   -c 1000              to a group of 1000 (mrt)
          martlet-bench connect -c 10000             connects per second, idle connections
          martlet-bench offline -c 100 -L 1000       enqueue for 100 absent sessions, then drain
          martlet-bench will    -c 5000              5000 sessions cut at once: their wills
          martlet-bench churn   -c 200               connect, subscribe, publish, vanish, again
          martlet-bench sleepy  -c 1000 --sleep 5    a fleet that wakes, drains and sleeps
          martlet-bench slow    -c 1000              fanout; one reader in a hundred stalls
          martlet-bench floor   -c 1000 -F 16        the fan-out without any broker
          martlet-bench compare FILE...              scenario files, several brokers in turn;
                                                     martlet-bench compare --help tells more

          -h, --host HOST          the broker (localhost)
          -p, --port PORT          its port (1883; 8883 with --tls)
          -V, --dialect NAME       mrt, mqtt311 (or 4) or mqtt5 (or 5) (mrt)
          -c, --count N            receivers, pairs or connections (100; fanin 1; will 1000)
          --publishers N           publishers of fanout and fanin (1; fanin 100); offline has one
                                   for all, or, when there are as many as receivers, pairs
          -t, --topic TOPIC        plain topic; %i is the number of the pair (bench/f, bench/%i);
                                   unicast in mrt sends to users and uses none
          -q, --qos N              0, 1 or 2; in mrt transient, durable, once (0)
          -s, --size BYTES         payload, at least 20 (100)

          -F, --window N           closed loop: messages of a publisher on their way at a time (16)
          --rate N                 open loop instead: messages per second of each publisher, timed
                                   from when they should have been sent (sleepy: 10)
          -I, --interval-of-msg MS the same, as milliseconds between messages of a publisher
          --seconds S              how long is measured (5)
          --warm-up S              how long before that nothing is measured (1)
          -L, --limit N            offline: messages of each publisher (1000)
          --sleep S                sleepy: from one waking of a device to the next (5)

          -x, --expiry SECONDS     how long sessions outlive their connection; 0 is a clean session.
                                   In MQTT 3.1.1 anything else is a persistent one (0; offline and
                                   sleepy 3600)
          -n, --startnumber N      number of the first client (0)
          --prefix TEXT            what client ids begin with (bench)
          -u, --user NAME          MQTT user name
          -P, --password TEXT      MQTT password; in mrt a token
          -R, --conn-rate N        connects per second (as fast as they are answered)
          -i, --interval MS        the same, as milliseconds between connects
          --ifaddr A,B             source addresses; each adds about 28,000 connections
          -S, --tls                TLS 1.2 or 1.3
          --cafile FILE            whom to trust instead of the system's authorities
          --insecure               trust anybody
          --resume                 connect: resume one TLS session for all connections
          --cert FILE, --key FILE  floor with --tls: the server's certificate chain and key

          --broker-pid PID         read the broker's CPU time, memory and descriptors from /proc
          --malloc-count FILE      the counters that libMallocCount keeps for the broker
          --json                   one JSON object instead of the report
          --html FILE              also a page with charts that needs nothing beside it
          --quiet                  no line per second, no progress
          --help                   print this page and exit; also -h without a scenario
          --version                print the version and exit; without a scenario

        The bytes of floor are those of MQTT 3.1.1. Exit codes: 0 all was delivered once and in
        order, 1 command line, 2 anything else, 5 no broker, 128 and the number of the signal that
        ended it.
        """
}
