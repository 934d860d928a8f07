// The operations of the HTTP API on traces.

extension APIOperation {
    static let startTrace = APIOperation(
        // A key could not read it, and would take the place of those that operators read.
        .startTrace, .post, at: "/apps/{app}/traces", role: .operate,
        serves: [.operator], status: 201,
        summary: "Starts a trace of a user's packets.",
        members: [
            .body("user", required: true), .body("device"),
            .body("showsPayloads", .boolean),
            .body("seconds", .number(maximum: StartTrace.secondsMaximum)),
        ],
        answer: [.text("trace")]
    ) { values throws(AdministrationRefusal) in
        .startTrace(
            StartTrace(
                app: try values.text("app"), user: try values.text("user"),
                device: values.text(optional: "device"),
                showsPayloads: values.boolean("showsPayloads"),
                seconds: values.number("seconds", as: UInt64.self)))
    }

    static let listTraces = APIOperation(
        .listTraces, .get, at: "/traces", role: .view,
        summary: "Lists the traces and who started them.",
        answer: [
            .objects(
                "traces", .text("trace"), .text("app"), .text("user"),
                .text(optional: "device"), .boolean("showsPayloads"), .text("startedBy"),
                .number("startedUnixMilliseconds"), .number("secondsLeft"),
                .number("packetCount"))
        ]
    ) { _ in .listTraces(ListTraces()) }

    /// Packets name topics and may show payloads, so that `view` is not enough.
    static let readTrace = APIOperation(
        .readTrace, .get, at: "/traces/{trace}", role: .operate,
        summary: "Reads the packets that a trace has recorded.",
        members: [.query("after", .number(maximum: .max))],
        answer: [
            .objects(
                "packets", .number("number"), .number("unixMilliseconds"), .text("direction"),
                .text("connection"), .text("packet"), .number("byteCount"),
                .text(optional: "address"), .text(optional: "user"),
                .text(optional: "device"), .text(optional: "dialect"),
                .text(optional: "topic"), .text(optional: "receiver"),
                .texts(optional: "filters"), .number(optional: "grade"),
                .number(optional: "id"), .number(optional: "payloadByteCount"),
                .text(optional: "payload"), .text(optional: "hex"),
                .text(optional: "reason"), .number(optional: "code"),
                .texts(optional: "codes"), .text(optional: "detail")),
            .number("next"), .number("missedCount"), .number("missedConnectionCount"),
            .text(optional: "end"),
        ]
    ) { values throws(AdministrationRefusal) in
        .readTrace(
            ReadTrace(
                trace: try values.text("trace"),
                after: values.number("after", as: UInt64.self)))
    }

    static let stopTrace = APIOperation(
        .stopTrace, .delete, at: "/traces/{trace}", role: .operate, summary: "Ends a trace."
    ) { values throws(AdministrationRefusal) in
        .stopTrace(StopTrace(trace: try values.text("trace")))
    }
}
