// The page of `martlet cluster`.

extension HelpPages {
    static let cluster = """
        martlet cluster status
        martlet cluster step-down [--shard NAME]

        status shows a node of a cluster, those that it has heard, and the log. step-down makes the
        primary give its place to a standby, within a second and without a lost message; the node
        ends with exit code 8 and its service manager starts it again as a standby. With --shard it
        gives up that shard alone (docs/operating/shards.md), and goes on.

          --data DIR           the data directory of a node on this machine; by default MARTLET_DATA
          --shard NAME         the shard of that name; default for the apps that none names
          --json               one JSON object
        """
}
