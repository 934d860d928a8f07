// The statistics of each shard, and their sum, which is the broker's.

import Administration
import BrokerCore

/// What one core counts.
struct ShardStatistics {
    let name: String
    var counters: Counters
    var gauges: Gauges
    /// Nil without a cluster.
    var cluster: ClusterView?

    /// Those of all shards now, by place.
    static func all(of shards: Shards) -> [ShardStatistics] {
        shards.cores.enumerated().map { place, core in
            var (counters, gauges) = core.enter { ($0.broker.counters, $0.broker.gauges()) }
            counters.connectsRefused += core.refusedLoginCount
            return ShardStatistics(
                name: shards.map.names[place], counters: counters, gauges: gauges,
                cluster: core.gate?.view?.withLock { $0 })
        }
    }

    /// The sum of all shards.
    static func sum(_ all: [ShardStatistics]) -> ShardStatistics {
        var sum = all[0]
        for one in all.dropFirst() {
            sum.counters += one.counters
            sum.gauges += one.gauges
        }
        return sum
    }

    /// The sizes of the tables of all stores.
    static func tableByteCounts(of shards: Shards) -> [(name: String, byteCount: UInt64)] {
        var sums = shards.first.commits.tables.withLock { $0 }
        for core in shards.cores.dropFirst() {
            for table in core.commits.tables.withLock({ $0 }) {
                if let index = sums.firstIndex(where: { $0.name == table.name }) {
                    sums[index].byteCount += table.byteCount
                } else {
                    sums.append(table)
                }
            }
        }
        return sums
    }

    /// Names of the statistics that each shard has too: they tell whether the shard serves, and
    /// what its share of the load is.
    static let statisticNames: Set = [
        "clients/connected", "clients/total", "connects/accepted", "connects/refused",
        "messages/received", "messages/refused", "messages/sent", "messages/stored",
        "store/messages/bytes", "store/batches", "store/full", "store/used/bytes",
        "store/limit/bytes", "cluster/leads", "cluster/term", "cluster/standbys",
        "cluster/lag/records", "cluster/log/bytes", "cluster/log/bytes/limit", "cluster/redirected",
    ]

    /// The statistics of the shard.
    ///
    /// - Parameter broker: what the statistics of the broker are read from.
    func values(beside broker: StatisticsSources) -> ShardValues {
        var sources = broker
        sources.counters = counters
        sources.gauges = gauges
        sources.cluster = cluster
        return ShardValues(
            name: name,
            values: StatisticsTable.all.filter { Self.statisticNames.contains($0.name) }.compactMap
            {
                statistic in
                statistic.value(sources).map { StatisticValue(statistic: statistic, value: $0) }
            })
    }
}

/// The statistics of one shard at one moment.
struct ShardValues {
    let name: String
    let values: [StatisticValue]

    /// For `martlet stats`.
    var reply: ReadStatistics.Shard {
        ReadStatistics.Shard(
            name: name,
            counters: values.map { ReadStatistics.Counter(name: $0.name, value: $0.value) })
    }
}

extension Counters {
    /// Adds totals to totals: each field is a number of 64 bits.
    static func += (left: inout Counters, right: Counters) {
        let byteCount = MemoryLayout<Counters>.size
        precondition(byteCount % 8 == 0, "\(byteCount) bytes of counters of 8 bytes")
        withUnsafeMutableBytes(of: &left) { left in
            withUnsafeBytes(of: right) { right in
                let (left, right) = (
                    left.bindMemory(to: UInt64.self), right.bindMemory(to: UInt64.self)
                )
                for index in left.indices { left[index] &+= right[index] }
            }
        }
    }
}

extension Gauges {
    static func += (left: inout Gauges, right: Gauges) {
        left.apps += right.apps
        left.users += right.users
        left.sessions += right.sessions
        left.groups += right.groups
        left.wills += right.wills
        left.connections += right.connections
        left.subscriptions += right.subscriptions
        left.sharedSubscriptions += right.sharedSubscriptions
        left.retainedMessages += right.retainedMessages
        left.retainedBytes += right.retainedBytes
        left.tokens += right.tokens
        left.sendKeys += right.sendKeys
        left.trackedSends += right.trackedSends
        left.wakeUsers += right.wakeUsers
        left.heldMessages += right.heldMessages
        left.conversations += right.conversations
        left.keptTopics += right.keptTopics
        left.keptMessages += right.keptMessages
        left.messagesInMemory += right.messagesInMemory
        left.spareBytes += right.spareBytes
        left.memoryQueueBytes += right.memoryQueueBytes
        left.queuedMessages += right.queuedMessages
        left.queuedBytes += right.queuedBytes
        left.isStoreFull = left.isStoreFull || right.isStoreFull
        left.storeUsedBytes += right.storeUsedBytes
        left.storeLimitBytes += right.storeLimitBytes
    }
}
