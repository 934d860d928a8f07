// The limits of the interfaces, each with the reason for its number.

import Administration

/// Limits of what clients of the interfaces may ask for.
public enum SourceLimits {
    /// Seconds for which a login through an interface is valid: 30 days. These systems have no
    /// refresh, and their clients log in again after a refusal.
    public static let sessionSeconds: UInt64 = 30 * 86_400
    /// Logins of a user through one interface at a time, so that a client which logs in at each
    /// start does not fill the store. Phones, browsers and a tablet of one person need fewer.
    public static let sessionsPerUserMaximum = 16
    /// Dialogs and conversations that one request reads: one page of groups.
    public static let dialogsMaximum = 1_000
    /// Of these, public dialogs of one owner: nobody hides those of others.
    public static let openDialogsPerOwnerMaximum = 100
    /// Kept messages that one request reads: ten pages of the store, about 100 ms.
    public static let messagesMaximum = 1_000
    /// Pages of the store that one request reads. Pages of long messages have fewer than a hundred.
    public static let pagesMaximum = 20
    /// Bytes of a text that messages are searched for, as in the broker's own searches.
    public static let searchByteCountMaximum = 128
    /// Items of an answer unless the client asks for fewer, as QuickBlox documents.
    public static let pageCountDefault = 100
    /// Members that a request adds or removes, each of which waits for a commit.
    public static let membersMaximum = 64
    /// Messages that one request marks or deletes: those of one page of a list.
    public static let messageIdentifiersMaximum = 100
    /// Conditions of a request; the clients of these systems send a few.
    public static let conditionsMaximum = 16
    /// Values of all conditions of a request together: each is looked for in a thousand dialogs.
    public static let conditionValuesMaximum = 100
    /// Conditions of a request that search texts: each reads all texts of a thousand messages.
    public static let searchesMaximum = 4
    /// Levels of JSON within each other: the messages of these systems have five, and a reader that
    /// calls itself has room for many more on the stack of a thread.
    public static let depthMaximum = 16
    /// Values of JSON in one request: a list of the members of the largest group has 1,000. An
    /// event with a file may have 7 MiB, and other files wait while it is read.
    public static let valuesMaximum = 10_000
    /// Characters of one number in JSON: the longest that programs write have 25.
    public static let numberByteCountMaximum = 64
    /// Bytes of a password: more only makes hashing slow.
    public static let passwordByteCountMaximum = 1_024
    /// Requests that one turn of the administration thread executes: one may wait for a hundred
    /// commits, and those of the API come between.
    public static let requestsPerTurnMaximum = 1
    /// Members of a form or a query.
    public static let fieldsMaximum = 512
    /// Members of a group that an answer names.
    public static let occupantsMaximum = 100
    /// Bytes of the data of a chat, as Diuit documents.
    public static let chatMetaByteCountMaximum = 5_120
    /// Bytes of the data of a message in a chat: it is in attributes, which have 512 bytes with the
    /// media type and their names.
    public static let messageMetaByteCountMaximum = 384
    /// Bytes of a value of an attribute.
    static let attributeByteCountMaximum = 255
    /// Bytes of a media type; those in use have fewer than 80.
    public static let mediaTypeByteCountMaximum = 100
    /// Messages of a chat in one answer unless the client asks for another count, as Diuit
    /// documents.
    public static let chatPageCountDefault = 20
    /// Chats of a list with their newest message, which the store reads with one batch.
    public static let newestMessagesMaximum = ListConversations.messagesMaximum
    /// Members of a chat whose read marks a list of messages tells: each of a hundred messages
    /// names those who have read it, and more of them would be most of the answer.
    public static let readersMaximum = 16
    /// Bytes of the items of one answer on a socket, unless one item has more. A socket whose
    /// unsent bytes exceed 8 MiB ends, and a client that lists after each login would be there
    /// again.
    public static let answerByteCountMaximum = 1 << 20
    /// Bytes of the state of a chat that an event tells to each member. A window of 256 such events
    /// has 2 MiB.
    public static let stateByteCountMaximum = 8_192
    /// The latest time that a client may ask for, in Unix seconds: far beyond any message, and a
    /// thousand times as much has no overflow.
    static let unixSecondsMaximum: Int64 = 1 << 40
    /// Seconds for which a nonce is valid: the account server has to sign it meanwhile.
    public static let nonceSeconds: UInt64 = 300
    /// Used nonces that are remembered until they are too old: logins of five minutes.
    public static let usedNoncesMaximum = 65_536
}
