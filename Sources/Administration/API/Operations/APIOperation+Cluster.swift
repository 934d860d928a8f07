// The operations on the cluster of which the broker is the primary. A standby sends requests to the
// primary; `martlet cluster` asks each node on its machine.

extension APIOperation {
    static let showCluster = APIOperation(
        .showCluster, .get, at: "/cluster", role: .view,
        summary: "Shows the nodes of the cluster, the lease, the log, its servers and the alarms.",
        answer: [
            .objects(
                "nodes", .text("name"), .text("part"), .text("address"),
                .text("webAddress"), .number("sequence"), .number("lagRecords"),
                .number("heardMilliseconds")),
            .number("term"), .boolean("hasLease"), .number("leaseMilliseconds"),
            .number("leaseLeftMilliseconds"), .text("durability"),
            .objects(
                "servers", .text("name"), .boolean("isLeader"), .boolean("isCurrent"),
                .number("lag")),
            .texts("alarms"), .number(optional: "firstRecord"),
            .number(optional: "lastRecord"), .number(optional: "logByteCount"),
            .number(optional: "logByteCountMaximum"),
            .objects(
                optional: "shards",
                [
                    .text("name"), .text("part"), .number("term"), .boolean("hasLease"),
                    .number("sequence"), .number("lagRecords"), .text("primary"),
                    .texts("alarms"),
                ]),
        ]
    ) { _ in .showCluster(ShowCluster()) }

    static let stepDown = APIOperation(
        .stepDown, .post, at: "/cluster/step-down", role: .own, status: 202,
        summary: "Gives the place of the primary to another node, of one shard or of all.",
        members: [.query("shard")]
    ) { values in .stepDown(StepDown(shard: values.text(optional: "shard"))) }
}
