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
        ]
    ) { _ in .showCluster(ShowCluster()) }

    static let stepDown = APIOperation(
        .stepDown, .post, at: "/cluster/step-down", role: .own, status: 202,
        summary: "Gives the place of the primary to another node."
    ) { _ in .stepDown(StepDown()) }
}
