// The command line of the load harness. Letters and meanings follow emqtt_bench, so that results
// can be put side by side; long names say what they are.

import CommandLineOptions

/// What is measured.
enum Scenario: String, CaseIterable {
    /// Every message goes to all receivers.
    case fanOut = "fanout"
    /// Pairs of one publisher and one receiver.
    case unicast
    /// Many publishers, one receiver.
    case fanIn = "fanin"
    /// Messages for sessions that are away (enqueue), then their return (drain).
    case offline
    /// Connections that do nothing: connects per second, memory of each.
    case connect = "conn"
    /// The fan-out without a broker: the same bytes to the same sockets by the least code.
    case floor
}

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
    case limit
    case seconds
    case warmUp = "warm-up"
    case expiry
    case startNumber = "startnumber"
    case prefix
    case user
    case password
    case connectRate = "conn-rate"
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
    case quiet

    var shape: OptionShape {
        switch self {
        case .tls, .insecure, .resume, .json, .quiet: .flag
        case .host, .port, .dialect, .count, .publishers, .topic, .qos, .size, .window, .rate,
            .limit, .seconds, .warmUp, .expiry, .startNumber, .prefix, .user, .password,
            .connectRate, .sourceAddresses, .authorityFile, .certificate, .key, .brokerProcess,
            .allocationCounts:
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
        case .limit: "L"
        case .expiry: "x"
        case .startNumber: "n"
        case .user: "u"
        case .password: "P"
        case .connectRate: "R"
        case .tls: "S"
        case .publishers, .rate, .seconds, .warmUp, .prefix, .sourceAddresses, .authorityFile,
            .insecure, .resume, .certificate, .key, .brokerProcess, .allocationCounts, .json,
            .quiet:
            nil
        }
    }

    static let helpPage = """
        martlet-bench: load for a broker, and what it costs

          martlet-bench fanout  -c 1000 -F 16        one publisher, 1000 receivers
          martlet-bench unicast -c 500               500 pairs
          martlet-bench fanin   --publishers 100     100 publishers, one receiver
          martlet-bench offline -c 100 -L 1000       enqueue for 100 absent sessions, then drain
          martlet-bench conn    -c 10000             idle connections
          martlet-bench floor   -c 1000 -F 16        the fan-out without any broker

          -h, --host HOST          the broker (localhost)
          -p, --port PORT          its port (1883; 8883 with --tls)
          -V, --dialect NAME       mrt, or 311 for MQTT 3.1.1 (mrt)
          -c, --count N            receivers, pairs or connections (100)
          --publishers N           publishers of fanout and fanin (1; fanin 100); offline has one
                                   for all, or, when there are as many as receivers, pairs
          -t, --topic TOPIC        plain topic; %i is the number of the pair (bench/f, bench/%i);
                                   unicast in mrt sends to users and uses none
          -q, --qos N              0, 1 or, in mrt, 2: transient, durable, once (0)
          -s, --size BYTES         payload, at least 20 (100)

          -F, --window N           closed loop: messages of a publisher on their way at a time (16)
          --rate N                 open loop instead: messages per second of each publisher, timed
                                   from when they should have been sent
          --seconds S              how long is measured (5)
          --warm-up S              how long before that nothing is measured (1)
          -L, --limit N            offline: messages of each publisher (1000)

          -x, --expiry SECONDS     how long sessions outlive their connection; 0 is a clean session.
                                   In MQTT 3.1.1 anything else is a persistent one (0; offline 3600)
          -n, --startnumber N      number of the first client (0)
          --prefix TEXT            what client ids begin with (bench)
          -u, --user NAME          MQTT user name
          -P, --password TEXT      MQTT password; in mrt a token
          -R, --conn-rate N        connects per second (as fast as they are answered)
          --ifaddr A,B             source addresses; each adds about 28,000 connections
          -S, --tls                TLS 1.2 or 1.3
          --cafile FILE            whom to trust instead of the system's authorities
          --insecure               trust anybody
          --resume                 conn: resume one TLS session for all connections
          --cert FILE, --key FILE  floor with --tls: the server's certificate chain and key

          --broker-pid PID         read the broker's CPU time, memory and descriptors from /proc
          --malloc-count FILE      the counters that libMallocCount keeps for the broker
          --json                   one JSON object instead of the report
          --quiet                  no line per second
          --help                   show this page

        The bytes of floor are those of MQTT 3.1.1. Exit codes: 0 all was delivered once and in
        order, 1 command line, 2 anything else, 5 no broker.
        """
}
