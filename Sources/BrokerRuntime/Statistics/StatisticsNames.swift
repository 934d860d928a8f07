// Names for the broker's counters: the names of Mosquitto's `$SYS` topics where they exist, and
// names of the same form for all others.

import BrokerCore
import NetTransport

/// Counters and gauges as a list, for `martlet stats`, `$SYS` topics and the metrics.
enum StatisticsNames {
    static func list(_ sources: StatisticsSources) -> [Statistic] {
        let (counters, gauges, loops) = (sources.counters, sources.gauges, sources.loops)
        let (rates, web, api) = (sources.rates, sources.web, sources.api)
        let (process, expiry) = (sources.process, sources.expiry)
        func sum(_ counter: (LoopCounters) -> UInt64) -> UInt64 {
            loops.reduce(0) { $0 + counter($1) }
        }
        let rows: KeyValuePairs<String, Statistic.Measure> = [
            "clients/connected": .gauge(UInt64(gauges.connections)),
            "clients/total": .gauge(UInt64(gauges.sessions)),
            "clients/expired": .counter(counters.sessionsExpired),
            "connects/accepted": .counter(counters.connectsAccepted),
            "connects/refused": .counter(counters.connectsRefused),
            "connects/refused/quota": .counter(counters.connectsOverQuota),
            "connects/refused/damped": .counter(counters.connectsDamped),
            "connects/takeovers": .counter(counters.takeovers),
            "connects/held": .counter(counters.connectsDelayed),
            "messages/held": .counter(counters.readingPauses),
            "credentials/refused": .counter(counters.credentialsRefused),
            "rights/refused": .counter(counters.rightsRefusals),
            "messages/received": .counter(counters.sendsAccepted),
            "messages/refused": .counter(counters.sendsRefused),
            "messages/refused/uncommitted": .counter(counters.sendsOverUncommitted),
            "messages/repeated": .counter(counters.sendsRepeated),
            "messages/keys": .gauge(UInt64(gauges.sendKeys)),
            "messages/keys/refused": .counter(counters.sendKeysRefused),
            "conversations/count": .gauge(UInt64(gauges.conversations)),
            "history/messages": .gauge(gauges.keptMessages),
            "history/messages/kept": .counter(counters.messagesKept),
            "history/messages/refused": .counter(counters.historyRefused),
            "history/messages/dropped": .counter(counters.historyDropped),
            "history/messages/expired": .counter(counters.historyExpired),
            "messages/possible_duplicates": .counter(counters.possibleDuplicates),
            "messages/sent": .counter(counters.deliveries),
            "messages/acknowledged": .counter(counters.acknowledgements),
            "messages/receivers_refused": .counter(counters.receiversRefused),
            "messages/expired": .counter(counters.expired),
            "messages/discarded": .counter(counters.discarded),
            "messages/refused/queue": .counter(counters.queueRefused),
            "messages/dropped/queue": .counter(counters.queueDropped),
            "messages/refused/memory_queue": .counter(counters.memoryQueueRefused),
            "messages/dropped/oversize": .counter(counters.oversizeDropped),
            "messages/dropped/slow_reader": .counter(sum { $0.drops }),
            "messages/stored": .gauge(gauges.queuedMessages),
            "store/messages/bytes": .gauge(gauges.queuedBytes),
            "store/messages/written": .counter(counters.messagesStored),
            "store/entries/written": .counter(counters.entriesStored),
            "store/entries/elided": .counter(counters.entriesElided),
            "store/entries/damaged": .counter(counters.damagedEntries),
            "store/entries/missing": .counter(counters.missingEntries),
            "store/rows/repaired": .counter(counters.rowsRepaired),
            "store/batches": .counter(counters.batchesCommitted),
            "store/batches/refused": .counter(counters.batchesRefused),
            "store/full": .gauge(gauges.isStoreFull ? 1 : 0),
            "store/used/bytes": .gauge(gauges.storeUsedBytes),
            "store/limit/bytes": .gauge(gauges.storeLimitBytes),
            "subscriptions/count": .gauge(UInt64(gauges.subscriptions)),
            "shared_subscriptions/count": .gauge(UInt64(gauges.sharedSubscriptions)),
            "retained messages/count": .gauge(UInt64(gauges.retainedMessages)),
            "retained messages/bytes": .gauge(UInt64(gauges.retainedBytes)),
            "subscriptions/refused": .counter(counters.subscriptionsRefused),
            "subscriptions/refused/quota": .counter(counters.subscriptionsOverQuota),
            "requests/published": .counter(counters.requestsPublished),
            "requests/refused": .counter(counters.requestsRefused),
            "requests/refused/quota": .counter(counters.requestsOverQuota),
            "groups/count": .gauge(UInt64(gauges.groups)),
            "groups/events_skipped": .counter(counters.groupEventsSkipped),
            "shared_subscriptions/handed_over": .counter(counters.sharesHandedOver),
            "presence/events": .counter(counters.presenceEvents),
            "history/events": .counter(counters.unreadEvents),
            "wills/count": .gauge(UInt64(gauges.wills)),
            "wills/sent": .counter(counters.willsSent),
            "wills/refused": .counter(counters.willsRefused),
            "messages/memory": .gauge(UInt64(gauges.messagesInMemory)),
            "messages/memory/spare/bytes": .gauge(UInt64(gauges.spareBytes)),
            "messages/memory/queue/bytes": .gauge(UInt64(gauges.memoryQueueBytes)),
            "apps/total": .gauge(UInt64(gauges.apps)),
            "users/total": .gauge(UInt64(gauges.users)),
            "users/refused": .counter(counters.usersRefused),
            "tokens/total": .gauge(UInt64(gauges.tokens)),
            "protocol_errors": .counter(counters.protocolErrors),
            "sender_clocks_rejected": .counter(counters.senderClocksRejected),
            "sockets/accepted": .counter(sum { $0.accepted }),
            "sockets/closed": .counter(sum { $0.closed }),
            "sockets/refused": .counter(sum { $0.refusedByMaximum }),
            "sockets/refused/address": .counter(sum { $0.refusedByAddress }),
            "sockets/accept_pauses": .counter(sum { $0.acceptPauses }),
            "sockets/pending": .gauge(sum { $0.pending }),
            "tls/handshakes/pending": .gauge(sum { $0.handshaking }),
            "clients/paused": .counter(rates.pauses),
            "clients/floods": .counter(rates.floods),
            "tls/handshakes": .counter(sum { $0.handshakesCompleted }),
            "tls/handshakes/resumed": .counter(sum { $0.handshakesResumed }),
            "tls/handshakes/failed": .counter(
                sum { $0[closed: .tlsFailure] + $0[closed: .handshakeTimeout] }),
            "sockets/outgoing/bytes": .gauge(sum { $0.outgoingHeld }),
            "sockets/closed/overflow": .counter(
                sum { $0[closed: .outgoingOverflow] + $0[closed: .lingerTimeout] }),
            "web/requests": .counter(web.requests),
            "web/requests/refused": .counter(web.refusals),
            "api/requests": .counter(api.requests),
            "api/credentials/refused": .counter(api.failures),
            "web/forwarded/malformed": .counter(web.malformedClients),
            "proxy/headers": .counter(sum { $0.proxyHeaders }),
            "proxy/headers/refused": .counter(sum { $0[closed: .proxyHeaderFault] }),
            "websockets/opened": .counter(sum { $0.webSocketsOpened }),
            "websockets/faults": .counter(sum { $0.webSocketFaults }),
            "bytes/received": .counter(sum { $0.bytesReceived }),
            "bytes/sent": .counter(sum { $0.bytesSent }),
            "process/memory/bytes": .gauge(process.residentBytes),
            "process/descriptors": .gauge(process.descriptorCount),
            "process/descriptors/limit": .gauge(process.descriptorLimit),
            // Without a certificate, the value is 100 years.
            "tls/certificate/days": .gauge(UInt64(max(expiry.certificateDays ?? 36_500, 0))),
            "tls/revocation_list/days": .gauge(UInt64(max(expiry.revocationListDays ?? 0, 0))),
        ]
        // Without a list there is nothing that expires.
        let absent = expiry.revocationListDays == nil ? "tls/revocation_list/days" : nil
        return rows.filter { $0.key != absent }.map { Statistic(name: $0.key, measure: $0.value) }
    }
}
