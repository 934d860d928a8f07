// The pages of the tool about what the broker does at this moment.

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

    static let log = """
        martlet log [--follow] [--count N]

        Shows the latest lines of the broker's log, the oldest first: logins, disconnections,
        refusals, limits, and what operators did. --follow also shows lines of level info that the
        broker's log.level leaves out. Of one event, 50 lines are kept per second.

          -f, --follow         go on with those that come
          -n, --count N        at most N, up to 1000 (100)
          --json               one JSON object per line
        \(broker)
        """

    static let refusals = """
        martlet refusals [--follow] [--count N]

        Prints the latest refused logins, requests and sends, and connections that failed or ended
        for a fault of the client, as the log has them with level warning. The broker keeps 1,000 in
        memory, whatever log.level is, and of one event at most 50 per second.

          -f, --follow         go on with those that come, until the command is ended
          -n, --count N        how many; 100 if absent, 1000 at most
          --json               one JSON object per refusal
        \(broker)
        """
}
