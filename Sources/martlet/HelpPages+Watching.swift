// The page of the tool about what the broker does at this moment.

extension HelpPages {
    static let top = """
        martlet top [--interval N] [--count N] [--once] [--json]

        Shows who does most: the users that send most messages, the deepest queues, the connections
        that read most slowly, and the refusals of the last minute. On a terminal the page is drawn
        again at each interval; elsewhere one page follows the other. The broker measures senders
        while somebody asks: at most 128 connections for each of its event loops, the busiest ones.

          --interval N         seconds between two pages, 1 to 60; 2 if absent
          -n, --count N        lines of each table, 1 to 50; 10 if absent
          --once               one page, after one interval, for scripts
          --json               one JSON object per page
        \(broker)
        """
}
