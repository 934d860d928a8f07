// What a stream must be to carry a log. docs/operating/cluster.md has the same list.

/// The findings of a check.
struct StreamFindings {
    /// No log is possible with these.
    var faults: [String] = []
    /// An acknowledgement survives less with these: refused unless durability is relaxed.
    var weaknesses: [String] = []
}

enum StreamRequirements {
    /// Compares a stream with what a log needs.
    ///
    /// - Parameters:
    ///   - subject: to which records are published.
    ///   - recordByteCountMaximum: of the largest record.
    static func check(
        _ stream: StreamDescription, subject: String, recordByteCountMaximum: Int
    ) -> StreamFindings {
        var findings = StreamFindings()
        let configuration = stream.configuration
        func text(_ name: String) -> String { configuration[name]?.text ?? "" }
        func require(_ condition: Bool, _ finding: @autoclosure () -> String) {
            if !condition { findings.faults.append(finding()) }
        }
        let subjects = configuration["subjects"]?.items.map { $0.text ?? "" } ?? []
        require(
            subjects == [subject],
            "its subjects are \(subjects), not [\"\(subject)\"]: it belongs to something else")
        for part in ["mirror", "sources", "subject_transform"] {
            require(configuration[part] == nil, "it has \(part): others would write into it")
        }
        require(
            text("retention") == "limits",
            "retention is \"\(text("retention"))\", not \"limits\": readers would remove records")
        require(
            text("discard") == "new",
            "discard is \"\(text("discard"))\", not \"new\": a full stream would lose its oldest "
                + "records")
        require(
            text("storage") == "file", "storage is \"\(text("storage"))\", not \"file\"")
        for limit in ["max_age", "max_msgs", "max_msgs_per_subject"] {
            let value = configuration[limit]?.number ?? 0
            require(value <= 0, "\(limit) is \(value): records would vanish or be refused")
        }
        require(
            configuration["deny_delete"]?.isTrue ?? false,
            "deny_delete is false: a single record could be deleted")
        for flag in ["deny_purge", "sealed", "no_ack", "allow_rollup_hdrs", "allow_msg_ttl"] {
            require(!(configuration[flag]?.isTrue ?? false), "\(flag) is true")
        }
        let bytes = configuration["max_bytes"]?.number ?? 0
        require(bytes > 0, "max_bytes is not set: a full disk would end the stream")
        let record = configuration["max_msg_size"]?.number ?? -1
        require(
            record < 0 || record >= recordByteCountMaximum,
            "max_msg_size is \(record), records have up to \(recordByteCountMaximum)")
        if stream.replicas < JetStreamLimits.replicasMinimum {
            findings.weaknesses.append(
                "num_replicas is \(stream.replicas), not \(JetStreamLimits.replicasMinimum): the "
                    + "loss of a server loses acknowledged messages")
        }
        if text("persist_mode") == "async" {
            findings.weaknesses.append("persist_mode is \"async\": a loss of power loses records")
        }
        return findings
    }

    /// The configuration of a new stream, as the request that creates it has it.
    static func configuration(name: String, subject: String, byteCountMaximum: Int64, replicas: Int)
        -> String
    {
        """
        {"name":"\(name)","subjects":["\(subject)"],"retention":"limits","storage":"file",\
        "discard":"new","num_replicas":\(replicas),"max_bytes":\(byteCountMaximum),"max_age":0,\
        "max_msgs":-1,"max_msgs_per_subject":-1,"max_msg_size":-1,"max_consumers":-1,\
        "deny_delete":true,"deny_purge":false,"allow_rollup_hdrs":false,"allow_direct":false,\
        "duplicate_window":1000000000}
        """
    }
}
