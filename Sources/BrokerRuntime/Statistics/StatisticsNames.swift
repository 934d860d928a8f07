// Names for the broker's counters: the names of Mosquitto's `$SYS` topics where they exist, and
// names of the same form for all others.

import Administration
import BrokerCore
import NetTransport

/// Counters and gauges as a list for `martlet stats`.
enum StatisticsNames {
    static func list(
        _ counters: Counters, gauges: Gauges, loops: [LoopCounters],
        rates: (pauses: UInt64, floods: UInt64),
        web: (requests: UInt64, refusals: UInt64, malformedClients: UInt64),
        api: (requests: UInt64, failures: UInt64),
        process: ProcessUsage, expiry: TrustExpiry
    ) -> [ReadStatistics.Counter] {
        func sum(_ counter: (LoopCounters) -> UInt64) -> UInt64 {
            loops.reduce(0) { $0 + counter($1) }
        }
        let values: KeyValuePairs<String, UInt64> = [
            "clients/connected": UInt64(gauges.connections),
            "clients/total": UInt64(gauges.sessions),
            "clients/expired": counters.sessionsExpired,
            "connects/accepted": counters.connectsAccepted,
            "connects/refused": counters.connectsRefused,
            "connects/refused/quota": counters.connectsOverQuota,
            "connects/refused/damped": counters.connectsDamped,
            "connects/takeovers": counters.takeovers,
            "connects/held": counters.connectsDelayed,
            "messages/held": counters.readingPauses,
            "credentials/refused": counters.credentialsRefused,
            "rights/refused": counters.rightsRefusals,
            "messages/received": counters.sendsAccepted,
            "messages/refused": counters.sendsRefused,
            "messages/refused/uncommitted": counters.sendsOverUncommitted,
            "messages/repeated": counters.sendsRepeated,
            "messages/keys": UInt64(gauges.sendKeys),
            "messages/keys/refused": counters.sendKeysRefused,
            "conversations/count": UInt64(gauges.conversations),
            "history/messages": gauges.keptMessages,
            "history/messages/kept": counters.messagesKept,
            "history/messages/dropped": counters.historyDropped,
            "history/messages/expired": counters.historyExpired,
            "messages/possible_duplicates": counters.possibleDuplicates,
            "messages/sent": counters.deliveries,
            "messages/acknowledged": counters.acknowledgements,
            "messages/receivers_refused": counters.receiversRefused,
            "messages/expired": counters.expired,
            "messages/discarded": counters.discarded,
            "messages/refused/queue": counters.queueRefused,
            "messages/dropped/queue": counters.queueDropped,
            "messages/refused/memory_queue": counters.memoryQueueRefused,
            "messages/dropped/oversize": counters.oversizeDropped,
            "messages/dropped/slow_reader": sum { $0.drops },
            "messages/stored": gauges.queuedMessages,
            "store/messages/bytes": gauges.queuedBytes,
            "store/messages/written": counters.messagesStored,
            "store/entries/written": counters.entriesStored,
            "store/entries/elided": counters.entriesElided,
            "store/entries/damaged": counters.damagedEntries,
            "store/entries/missing": counters.missingEntries,
            "store/rows/repaired": counters.rowsRepaired,
            "store/batches": counters.batchesCommitted,
            "store/batches/refused": counters.batchesRefused,
            "store/full": gauges.isStoreFull ? 1 : 0,
            "store/used/bytes": gauges.storeUsedBytes,
            "store/limit/bytes": gauges.storeLimitBytes,
            "subscriptions/count": UInt64(gauges.subscriptions),
            "shared_subscriptions/count": UInt64(gauges.sharedSubscriptions),
            "retained messages/count": UInt64(gauges.retainedMessages),
            "retained messages/bytes": UInt64(gauges.retainedBytes),
            "subscriptions/refused": counters.subscriptionsRefused,
            "subscriptions/refused/quota": counters.subscriptionsOverQuota,
            "requests/refused": counters.requestsRefused,
            "requests/refused/quota": counters.requestsOverQuota,
            "groups/count": UInt64(gauges.groups),
            "groups/events_skipped": counters.groupEventsSkipped,
            "shared_subscriptions/handed_over": counters.sharesHandedOver,
            "presence/events": counters.presenceEvents,
            "wills/count": UInt64(gauges.wills),
            "wills/sent": counters.willsSent,
            "wills/refused": counters.willsRefused,
            "messages/memory": UInt64(gauges.messagesInMemory),
            "messages/memory/spare/bytes": UInt64(gauges.spareBytes),
            "messages/memory/queue/bytes": UInt64(gauges.memoryQueueBytes),
            "apps/total": UInt64(gauges.apps),
            "users/total": UInt64(gauges.users),
            "tokens/total": UInt64(gauges.tokens),
            "protocol_errors": counters.protocolErrors,
            "sender_clocks_rejected": counters.senderClocksRejected,
            "sockets/accepted": sum { $0.accepted },
            "sockets/closed": sum { $0.closed },
            "sockets/refused": sum { $0.refusedByMaximum },
            "sockets/refused/address": sum { $0.refusedByAddress },
            "sockets/accept_pauses": sum { $0.acceptPauses },
            "sockets/pending": sum { $0.pending },
            "tls/handshakes/pending": sum { $0.handshaking },
            "clients/paused": rates.pauses,
            "clients/floods": rates.floods,
            "tls/handshakes": sum { $0.handshakesCompleted },
            "tls/handshakes/resumed": sum { $0.handshakesResumed },
            "tls/handshakes/failed": sum {
                $0[closed: .tlsFailure] + $0[closed: .handshakeTimeout]
            },
            "sockets/outgoing/bytes": sum { $0.outgoingHeld },
            "sockets/closed/overflow": sum {
                $0[closed: .outgoingOverflow] + $0[closed: .lingerTimeout]
            },
            "web/requests": web.requests,
            "web/requests/refused": web.refusals,
            "api/requests": api.requests,
            "api/credentials/refused": api.failures,
            "web/forwarded/malformed": web.malformedClients,
            "proxy/headers": sum { $0.proxyHeaders },
            "proxy/headers/refused": sum { $0[closed: .proxyHeaderFault] },
            "websockets/opened": sum { $0.webSocketsOpened },
            "websockets/faults": sum { $0.webSocketFaults },
            "bytes/received": sum { $0.bytesReceived },
            "bytes/sent": sum { $0.bytesSent },
            "process/memory/bytes": process.residentBytes,
            "process/descriptors": process.descriptorCount,
            "process/descriptors/limit": process.descriptorLimit,
            // Without a certificate or list, the value is 100 years.
            "tls/certificate/days": UInt64(max(expiry.certificateDays ?? 36_500, 0)),
            "tls/revocation_list/days": UInt64(max(expiry.revocationListDays ?? 36_500, 0)),
        ]
        return values.map { ReadStatistics.Counter(name: $0.key, value: $0.value) }
    }
}
