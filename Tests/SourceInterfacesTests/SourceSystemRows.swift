// The rows that docs/operating/source-systems.md has to have: everything that the documents of
// these systems describe, so that nothing is without a verdict.

/// What a section of the page tells of one system.
struct SourceSystemRows {
    let section: String
    /// The first cells of the rows, in any order.
    let subjects: [String]

    static let all = [rest, quickBlox, leanMessage, diuit, sdk]

    static let rest = SourceSystemRows(
        section: "Small REST server",
        subjects: [
            "`POST /auth/register`", "`POST /auth/login`", "`POST /conversations/create`",
            "`GET /conversations`", "`jwt` of a login", "403 without a valid header",
            "400 for a missing field", "content of another type than JSON",
            "a name that is taken", "port 3002 without TLS", "sign out",
            "tokens in `Authorization: Bearer`", "success is 200",
            "`label` and `token` of a conversation", "screens for login and registration",
            "a client in two files of Swift",
        ])

    static let quickBlox = SourceSystemRows(
        section: "QuickBlox",
        subjects: [
            "`GET /chat/Dialog`", "`POST /chat/Dialog`", "`PUT /chat/Dialog/{id}`",
            "`GET /chat/Message`", "`POST /chat/Message`", "`PUT /chat/Message/{id},{id}`",
            "`DELETE /chat/Message/{id}`", "suffix `.json`, or none", "suffix `.xml`",
            "content as a form or as JSON", "header `QB-Token`", "sessions of the Users module",
            "operators `lt`, `lte`, `gt`, `gte`, `ne`, `in`, `nin`, `all`, `or`, `ctn`",
            "`limit`, `skip`, `count`, `sort_asc`, `sort_desc`", "lists", "types 1, 2 and 3",
            "ids", "`occupants_ids` as a text with commas, or a list",
            "`push_all`, `pull_all`, and `push`, `pull`", "who changes a dialog of type 2",
            "`name`", "a private dialog begins with its first message",
            "all messages that are listed become read", "messages of a dialog of type 1",
            "`POST` adds to the history alone", "`date_sent`", "own members of messages",
            "`attachments`", "messages about new and changed groups", "`xmpp_room_jid`", "XMPP",
            "main host and host of rooms", "users are made and removed outside of chat",
            "a user has another id in each app", "a token as the password of chat",
            "the sender of a message", "libraries of XMPP", "`save_to_history`",
            "a client's time counts if it differs by at most 5 s", "fields of a dialog",
            "fields of a message", "success is 201 for what is made, otherwise 200",
            "only occupants list messages, and dialogs that they are in",
            "the creator is an occupant", "dialogs after a login",
            "a user joins a room before it sends and receives", "`maxstanzas` of a join",
            "files of messages",
        ])

    static let leanMessage = SourceSystemRows(
        section: "LeanMessage",
        subjects: [
            "`mentionList`, `mentionAll`", "`mentioned`, `mentionedAll`", "modify a message",
            "`MESSAGE_UPDATE`", "recall a message, `MESSAGE_RECALL`", "caches of clients",
            "transient messages", "send options and their bits", "first in, first out",
            "every message is acknowledged, or sent again", "receipts in conversations of two",
            "`LAST_DELIVERED_AT_UPDATE`", "`LAST_READ_AT_UPDATE`", "mute a conversation", "will",
            "one will per user", "push: 20 missed messages of a conversation", "pull",
            "one default of synchronization",
            "conversations, unread counts and last messages after a login",
            "unread counts grow until `read`", "50 conversations with unread messages",
            "`UNREAD_MESSAGES_COUNT_UPDATE`", "`tag`, unique for a client",
            "messages go to all devices of a user", "`CONFLICT`, 4111",
            "only an explicit login kicks", "types of messages", "`attributes`",
            "operation messages", "names of events", "`priority`", "`pushData`",
        ])

    static let diuit = SourceSystemRows(
        section: "Diuit",
        subjects: [
            "headers `x-diuit-application-id`, `x-diuit-app-key`",
            "identities of the app's own account server", "login in four steps",
            "`GET /1/auth/nonce`", "header of the JWT: `alg`, `cty`, `kid`",
            "claims `iss`, `sub`, `iat`, `exp`, `nonce`",
            "`exp` decides how long the session is valid", "`POST /1/auth/login`", "`deviceId`",
            "`platform`, `pushToken`", "header `X-Diuit-Session-Token`", "event `authenticate`",
            "15 s for `authenticate`", "another event before it",
            "`authenticate` again after a lost connection", "another login of the same device",
            "`chats/list`", "`chats/create`", "`chats/join`, `chats/leave`", "`chats/meta/update`",
            "`chats/whiteList/update`, also `chat/whiteList/update`", "`chat/kick`",
            "event `message`", "text: `text/plain`, `utf8`", "media: `mime` and the address, `url`",
            "a listener for one chat, or for all", "`messages/create` with text",
            "`messages/create` with `base64`", "images and files of 5 MB", "`meta` of a message",
            "`messages/list`", "`messages/markAsRead`", "`reads` of a message",
            "`user.left`, `user.joined`, `user.kicked`", "`whiteList.updated`, `meta.updated`",
            "`pushEnabled`", "texts of pushes and `badge`", "user: `id`, `serial`, `meta`",
            "device: `id`, `serial`, `platform`, `status`, `authToken`, `meta`, `pushToken`",
            "chat: `id`, `pushEnabled`, `lastMessage`, `members`, `whiteList`, `meta`",
            "message: `id`, `mime`, `encoding`, `data`, `createdAt`, `senderUser`, `meta`, `reads`",
            "`addMember`, `removeMember`", "`onFailure(code, JSON)`", "typing indicators",
            "Socket.IO 5 over Engine.IO 4, WebSocket", "Engine.IO over polling, and older versions",
            "binary parts of Socket.IO", "the same events as plain JSON",
        ])

    static let sdk = SourceSystemRows(
        section: "Dasudian IM SDK",
        subjects: [
            "an app id and an app key", "a library and a header",
            "certificates for notifications of phones",
            "login with version, app, key, user and address", "`userinfo`", "`devicetoken`",
            "reason 5", #"`{"t":"0","b":"text"}`"#, "`messageid`", "1,024 bytes",
            "asynchronous send to a list of users", "synchronous send to users", "reason 2",
            "synchronous send to a group", "asynchronous send to a group", "reason 3",
            "synchronous send to everybody", "asynchronous send to everybody", "reason 4",
            "create a group", "join a group", "leave a group", "kick a member", "reason 6",
            "reason 1 with the `messageid`", "the SDK connects again", "reason codes 1 to 6",
            "disconnect, after which nothing arrives", "a reader of its JSON",
            "messages for users who are away",
        ])
}
