// A request for each operation of the HTTP API.

/// An operation with a request that succeeds where the ones before it did.
struct APIStep {
    let method: String
    let template: String
    let path: String
    var query = ""
    var body: String?
    /// A part of the answer.
    let answer: String

    static let group = "GROUP"

    /// 64 bytes 0 in base64, as the digest of a hash.
    static let digest = String(repeating: "A", count: 86) + "=="

    static func all(backup: String, reference: String) -> [APIStep] {
        [
            APIStep(
                method: "POST", template: "/apps", path: "/apps",
                body: #"{"app":"plant","rights":["send:*","publish:#","group:create"]}"#,
                answer: #"{"key":"mk1_"#),
            APIStep(method: "GET", template: "/apps", path: "/apps", answer: #""app":"plant""#),
            APIStep(
                method: "PUT", template: "/apps/{app}/rights", path: "/apps/plant/rights",
                body: #"{"rights":["send:*","publish:site/%u/#","subscribe:#"]}"#,
                answer: "{}"),
            APIStep(
                method: "GET", template: "/apps/{app}", path: "/apps/plant",
                answer: #""rights":["send:*","publish:site/%u/#","subscribe:#"]"#),
            APIStep(
                method: "POST", template: "/apps/{app}/keys", path: "/apps/plant/keys",
                body: #"{"name":"ci","role":"view","rights":["send:*"],"expirySeconds":60}"#,
                answer: #"{"key":"mk1_"#),
            APIStep(
                method: "GET", template: "/apps/{app}/keys", path: "/apps/plant/keys",
                answer: #""rights":["send:*"],"role":"view"},{"madeUnixSeconds":"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/keys/{name}",
                path: "/apps/plant/keys/ci", answer: #"{"connectionCount":0}"#),
            APIStep(
                method: "PUT", template: "/apps/{app}/users/{user}",
                path: "/apps/plant/users/pump%207%C3%BC", answer: #"{"isNew":true}"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users", path: "/apps/plant/users",
                query: "?limit=10", answer: #""tokenCount":0,"user":"pump 7ü""#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}",
                path: "/apps/demo/users/carol", answer: #""credential":{"id":""#),
            APIStep(
                method: "POST", template: "/apps/{app}/messages",
                path: "/apps/plant/messages",
                body:
                    #"{"from":"pump 7ü","users":["pump 7ü"],"t":3,"b":"\"x\"","isKept":true}"#,
                answer: #"{"receiverCount":1,"refused":[],"refusedCount":0}"#),
            APIStep(
                method: "POST", template: "/apps/{app}/messages",
                path: "/apps/plant/messages",
                body: #"{"from":"pump 7ü","users":["pump 7ü"],"b":"x","mid":"m-7","#
                    + #""asksReference":true}"#,
                answer: #""reference":""#),
            APIStep(
                method: "POST", template: "/apps/{app}/messages/replace",
                path: "/apps/plant/messages/replace",
                body: #"{"from":"pump 7ü","mid":"m-7","b":"y"}"#,
                answer: #""withdrawnCount":1"#),
            APIStep(
                method: "POST", template: "/apps/{app}/messages/recall",
                path: "/apps/plant/messages/recall",
                body: #"{"from":"pump 7ü","mid":"m-7","detail":"no"}"#,
                answer: #""withdrawnCount":1"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/queue",
                path: "/apps/plant/users/pump%207%C3%BC/queue", answer: #""messageCount":1"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/queue/messages",
                path: "/apps/plant/users/pump%207%C3%BC/queue/messages", query: "?limit=1",
                answer: #""isUnderWay":false,"kind":"user","number":1,"t":3,"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/queue/contents",
                path: "/apps/plant/users/pump%207%C3%BC/queue/contents", query: "?after=0",
                answer:
                    #""content":{"base64":"Ingi","byteCount":3,"isCut":false,"text":"\"x\""}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/users/{user}/queue/messages/{number}",
                path: "/apps/plant/users/pump%207%C3%BC/queue/messages/1", answer: "{}"),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/conversations",
                path: "/apps/plant/users/pump%207%C3%BC/conversations",
                query: "?limit=1&after=0&isUnreadOnly=false",
                answer: #""lastNumber":1,"readThrough":0,"unreadCount":0,"user":"pump 7ü""#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/conversations/newest",
                path: "/apps/plant/users/pump%207%C3%BC/conversations/newest",
                query: "?limit=1", answer: #""lastMessage":{"byteCount":"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/history/{with}",
                path: "/apps/plant/users/pump%207%C3%BC/history/pump%207%C3%BC",
                query: "?limit=1&search=x&from=pump%207%C3%BC&sinceUnixMilliseconds=1",
                answer: #""number":1,"t":3,"#),
            APIStep(
                method: "PUT", template: "/apps/{app}/users/{user}/conversations/{with}/read",
                path: "/apps/plant/users/pump%207%C3%BC/conversations/pump%207%C3%BC/read",
                body: #"{"number":1}"#, answer: "{}"),
            APIStep(
                method: "POST", template: "/apps/{app}/users/{user}/applied",
                path: "/apps/demo/users/carol/applied",
                body: #"{"reference":"\#(reference)","code":1,"text":"done"}"#, answer: "{}"),
            APIStep(
                method: "DELETE",
                template: "/apps/{app}/users/{user}/history/{with}/{number}",
                path: "/apps/plant/users/pump%207%C3%BC/history/pump%207%C3%BC/1",
                answer: "{}"),
            APIStep(
                method: "GET", template: "/apps/{app}/receipts/{reference}",
                path: "/apps/demo/receipts/\(reference)", query: "?limit=1",
                answer: #"{"appliedCount":1,"#),
            APIStep(
                method: "GET", template: "/apps/{app}/topics", path: "/apps/demo/topics",
                query: "?limit=1", answer: #""messageCount":1,"topic":"site/7/limit""#),
            APIStep(
                method: "GET", template: "/apps/{app}/topics/history",
                path: "/apps/demo/topics/history", query: "?topic=site/7/limit&search=4",
                answer: #""text":"40""#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/topics/history/{number}",
                path: "/apps/demo/topics/history/1", query: "?topic=site/7/limit",
                answer: "{}"),
            APIStep(
                method: "PUT", template: "/apps/{app}/passwords/{name}",
                path: "/apps/plant/passwords/pump%207",
                body: #"{"password":"geheim","user":"pump 7ü","rights":["send:*"]}"#,
                answer: #"{"connectionCount":0}"#),
            APIStep(
                method: "POST", template: "/apps/{app}/passwords",
                path: "/apps/plant/passwords",
                body: #"{"names":["dora"],"hashes":["$7$101$AAECAwQFBgcICQoL$\#(digest)"]}"#,
                answer: #"{"connectionCount":0}"#),
            APIStep(
                method: "POST", template: "/apps/{app}/sessions", path: "/apps/plant/sessions",
                body: #"{"user":"dora","device":"d","from":"m","position":0,"messages":[]}"#,
                answer: #""state":"taken""#),
            APIStep(
                method: "GET", template: "/apps/{app}/passwords",
                path: "/apps/plant/passwords", query: "?user=dora",
                answer: #""kind":"pbkdf2-sha512""#),
            APIStep(
                method: "PUT", template: "/apps/{app}/passwords/{name}/expiry",
                path: "/apps/plant/passwords/dora/expiry", body: #"{"expirySeconds":60}"#,
                answer: #"{"connectionCount":0}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/passwords/{name}",
                path: "/apps/plant/passwords/pump%207", answer: #"{"connectionCount":0}"#),
            APIStep(
                method: "GET", template: "/apps/{app}/retained", path: "/apps/demo/retained",
                query: "?filter=site/%23&limit=1", answer: #""topic":"site/7/limit""#),
            APIStep(
                method: "GET", template: "/apps/{app}/retained/message",
                path: "/apps/demo/retained/message", query: "?topic=site/7/limit",
                answer: #""text":"40""#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/retained",
                path: "/apps/demo/retained", query: "?filter=site/%2B/limit",
                answer: #"{"hasMore":false,"messageCount":1}"#),
            APIStep(
                method: "GET", template: "/apps/{app}/explain", path: "/apps/plant/explain",
                query: "?user=a&action=publish&target=site/a/%2B", answer: #""grounds":"#),
            APIStep(
                method: "POST", template: "/apps/{app}/tokens", path: "/apps/plant/tokens",
                body: #"{"users":["alice","bob"],"batch":"lot","expirySeconds":60}"#,
                answer: #""token":"mt1_"#),
            APIStep(
                method: "GET", template: "/apps/{app}/tokens", path: "/apps/plant/tokens",
                query: "?batch=lot&user=bob", answer: #""user":"bob"}]}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/tokens", path: "/apps/plant/tokens",
                query: "?batch=lot", answer: #"{"connectionCount":0,"tokenCount":2}"#),
            APIStep(
                method: "GET", template: "/apps/{app}/sessions", path: "/apps/demo/sessions",
                query: "?isConnected=true&user=carol", answer: #""isPersistent":true"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/connections",
                path: "/apps/demo/connections", query: "?user=carol&sendsWills=false",
                answer: #"{"sessionCount":1}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/queues", path: "/apps/demo/queues",
                // The message that asks for *applied*, and its receipt.
                query: "?user=carol", answer: #"{"messageCount":2}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/sessions",
                path: "/apps/demo/sessions", query: "?user=carol",
                answer: #"{"sessionCount":1}"#),
            APIStep(
                method: "POST", template: "/apps/{app}/groups", path: "/apps/plant/groups",
                body: #"{"owner":"alice","title":"Pump house"}"#, answer: #""groupid":""#),
            APIStep(
                method: "GET", template: "/apps/{app}/groups", path: "/apps/plant/groups",
                query: "?user=alice", answer: #""title":"Pump house""#),
            APIStep(
                method: "PUT", template: "/apps/{app}/groups/{groupid}/members/{user}",
                path: "/apps/plant/groups/\(group)/members/bob", query: "?backlog=5",
                answer: #"{"isChanged":true}"#),
            APIStep(
                method: "PUT", template: "/apps/{app}/groups/{groupid}/meta",
                path: "/apps/plant/groups/\(group)/meta", body: #"{"meta":"x\"y"}"#,
                answer: "{}"),
            APIStep(
                method: "PUT", template: "/apps/{app}/groups/{groupid}/allowed",
                path: "/apps/plant/groups/\(group)/allowed", body: #"{"allowed":["bob"]}"#,
                answer: "{}"),
            APIStep(
                method: "PUT", template: "/apps/{app}/groups/{groupid}/history",
                path: "/apps/plant/groups/\(group)/history", body: #"{"isKept":true}"#,
                answer: "{}"),
            APIStep(
                method: "POST", template: "/apps/{app}/messages",
                path: "/apps/plant/messages",
                body: #"{"from":"alice","group":"\#(group)","b":"hello","isKept":true,"#
                    + #""mid":"order/7"}"#,
                answer: #"{"mid":"order/7","receiverCount":"#),
            APIStep(
                method: "GET", template: "/apps/{app}/groups/{groupid}/history",
                path: "/apps/plant/groups/\(group)/history", query: "?before=9",
                answer: #""text":"hello""#),
            APIStep(
                method: "GET", template: "/apps/{app}/groups/{groupid}/newest",
                path: "/apps/plant/groups/\(group)/newest", query: "?limit=1",
                answer: #""text":"hello""#),
            APIStep(
                method: "PUT", template: "/apps/{app}/users/{user}/groups/{groupid}/read",
                path: "/apps/plant/users/alice/groups/\(group)/read",
                body: #"{"number":1,"isHidden":false}"#, answer: "{}"),
            APIStep(
                method: "DELETE", template: "/apps/{app}/groups/{groupid}/history/{number}",
                path: "/apps/plant/groups/\(group)/history/1", answer: "{}"),
            APIStep(
                method: "GET", template: "/apps/{app}/groups/{groupid}",
                path: "/apps/plant/groups/\(group)", answer: #""members":["alice","bob"]"#),
            APIStep(
                method: "PUT", template: "/apps/{app}/groups/{groupid}/wake",
                path: "/apps/plant/groups/\(group)/wake", body: #"{"isOn":false}"#,
                answer: "{}"),
            APIStep(
                method: "PUT", template: "/apps/{app}/groups/{groupid}/members/{user}/mute",
                path: "/apps/plant/groups/\(group)/members/bob/mute",
                answer: #"{"isChanged":true}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/groups/{groupid}/members/{user}/mute",
                path: "/apps/plant/groups/\(group)/members/bob/mute",
                answer: #"{"isChanged":true}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/groups/{groupid}/members/{user}",
                path: "/apps/plant/groups/\(group)/members/bob", query: "?action=kick",
                answer: #"{"isChanged":true}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/groups/{groupid}/allowed",
                path: "/apps/plant/groups/\(group)/allowed", answer: "{}"),
            APIStep(
                method: "DELETE", template: "/apps/{app}/groups/{groupid}",
                path: "/apps/plant/groups/\(group)",
                answer: #"{"hasMore":false,"memberCount":1}"#),
            APIStep(
                method: "PUT", template: "/apps/{app}/users/{user}/wake-targets",
                path: "/apps/demo/users/carol/wake-targets",
                body: #"{"kind":"udp","address":"10.0.0.9:7000"}"#, answer: #"{"id":"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/wake-targets",
                path: "/apps/demo/users/carol/wake-targets",
                answer: #""address":"10.0.0.9:7000""#),
            APIStep(
                method: "POST", template: "/apps/{app}/users/{user}/wake-test",
                path: "/apps/demo/users/carol/wake-test", body: "{}",
                answer: #"{"targetCount":1}"#),
            APIStep(
                method: "PUT", template: "/apps/{app}/wake-templates/{kind}",
                path: "/apps/demo/wake-templates/mqtt",
                body: #"{"template":"{ n: '${count}' } // number"}"#,
                answer: #"{"template":"{\"n\":\"${count}\"}"}"#),
            APIStep(
                method: "GET", template: "/apps/{app}/wake-templates",
                path: "/apps/demo/wake-templates", answer: #"{"templates":[{"kind":"mqtt","#),
            APIStep(
                method: "POST", template: "/apps/{app}/wake-templates/{kind}/try",
                path: "/apps/demo/wake-templates/mqtt/try", body: "{}",
                answer: #"{"content":"{\"n\":3}"}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/wake-templates/{kind}",
                path: "/apps/demo/wake-templates/mqtt", answer: #"{"isRemoved":true}"#),
            APIStep(
                method: "GET", template: "/apps/{app}/users/{user}/wake-log",
                path: "/apps/demo/users/carol/wake-log", answer: #"{"entries":[],"last":0}"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}/users/{user}/wake-targets/{id}",
                path: "/apps/demo/users/carol/wake-targets/1", answer: #"{"isRemoved":"#),
            APIStep(
                method: "POST", template: "/backups", path: "/backups",
                body: "{\"directory\":\"\(backup)\"}", answer: #""number":1"#),
            APIStep(
                method: "GET", template: "/backups/last", path: "/backups/last",
                answer: #"{"backup":{"byteCount":"#),
            APIStep(
                method: "GET", template: "/statistics", path: "/statistics",
                answer: #""name":"api/requests""#),
            APIStep(
                method: "GET", template: "/activity", path: "/activity", query: "?limit=10",
                answer: #""senders":["#),
            APIStep(
                method: "GET", template: "/listeners", path: "/listeners",
                answer: #""scheme":"https""#),
            APIStep(
                method: "GET", template: "/log", path: "/log", query: "?after=0&limit=10",
                answer: #""event":"broker_started""#),
            APIStep(
                method: "GET", template: "/refusals", path: "/refusals",
                query: "?after=0&limit=10", answer: #""last":"#),
            APIStep(
                method: "POST", template: "/reload", path: "/reload",
                answer: #"{"changed":[],"files":[],"needsRestart":[]}"#),
            APIStep(
                method: "PUT", template: "/log-level", path: "/log-level",
                body: #"{"level":"debug"}"#, answer: #"{"previous":"info"}"#),
            APIStep(
                method: "POST", template: "/apps/{app}/traces", path: "/apps/demo/traces",
                body: #"{"user":"carol","showsPayloads":true,"seconds":60}"#,
                answer: #"{"trace":"1"}"#),
            APIStep(
                method: "GET", template: "/traces", path: "/traces",
                answer: #""startedBy":"own""#),
            APIStep(
                method: "GET", template: "/traces/{trace}", path: "/traces/1",
                query: "?after=0", answer: #""missedCount":0"#),
            APIStep(
                method: "DELETE", template: "/traces/{trace}", path: "/traces/1",
                answer: "{}"),
            APIStep(
                method: "POST", template: "/operators", path: "/operators",
                body: #"{"operator":"dave","role":"view","expirySeconds":60}"#,
                answer: #"{"token":"mo1_"#),
            APIStep(
                method: "GET", template: "/me", path: "/me",
                answer: #"{"kind":"operator","operator":"own","role":"own"}"#),
            APIStep(
                method: "GET", template: "/operators", path: "/operators",
                answer: #""operator":"dave","role":"view"}"#),
            APIStep(
                method: "POST", template: "/operators/{operator}/links",
                path: "/operators/dave/links", body: #"{"role":"view"}"#,
                answer: #""code":"ml1_"#),
            APIStep(
                method: "DELETE", template: "/operators/{operator}", path: "/operators/dave",
                answer: "{}"),
            APIStep(
                method: "DELETE", template: "/apps/{app}/users/{user}",
                path: "/apps/plant/users/pump%207%C3%BC", query: "?force=true",
                answer: #""hasMore":false"#),
            APIStep(
                method: "DELETE", template: "/apps/{app}", path: "/apps/plant",
                query: "?force=true", answer: #""hasMore":false"#),
        ]
    }
}
