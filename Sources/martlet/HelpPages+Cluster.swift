// The page of `martlet cluster`.

extension HelpPages {
    static let cluster = """
        martlet cluster status
        martlet cluster step-down

        status shows a node of a cluster, those that it has heard, and the log. step-down makes the
        primary give its place to a standby, within a second and without a lost message; the node
        ends with exit code 8 and its service manager starts it again as a standby.

          --data DIR           the data directory of a node on this machine; by default MARTLET_DATA
          --json               one JSON object
        """
}
