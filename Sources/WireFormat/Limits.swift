// The limits that are part of the wire protocols themselves, whatever an operator configures.
// Limits of one broker (packet sizes, windows, queue lengths) are sent in CONNACK and defined
// elsewhere.

/// Limits of the encodings.
public enum WireLimits {
    /// The remaining length of a packet: four bytes of seven bits (MQTT 5.0 section 2.1.4).
    public static let remainingLengthMaximum = 268_435_455
    /// Fixed header: one byte of type and flags, at most four of remaining length.
    public static let fixedHeaderByteCountMaximum = 5
    /// A variable byte integer in an MRT packet: nine bytes of seven bits are 63 bits, which every
    /// language's signed 64-bit integer holds.
    public static let varIntByteCountMaximum = 9
    public static let varIntMaximum: UInt64 = 1 << 63 - 1

    /// Bytes of a user, group, app or device id.
    public static let identifierByteCountMaximum = 64
    /// Bytes of an application's message id: room for a UUID or a hash in hexadecimal.
    public static let messageIdentifierByteCountMaximum = 64
    /// Bytes of an app key: the largest one-byte length.
    public static let appKeyByteCountMaximum = 255
    /// Bytes of a token. JWTs in the field are 300 to 2,000; MQTT's password field ends here too.
    public static let tokenByteCountMaximum = 65_535
    /// Bytes of a whole CONNECT, in every dialect and on channels: what a stranger may make the
    /// broker keep. Tokens in the field leave most of it to a will and to properties.
    public static let connectByteCountMaximum = 16_384
    /// Bytes of a topic name or filter (MQTT 5.0 section 1.5.4).
    public static let topicByteCountMaximum = 65_535
    /// Users in the list of one send: with ids of 64 bytes still below 16 KiB.
    public static let receiverCountMaximum = 256
    /// Bytes of the client's information in CONNECT (5 kB).
    public static let informationByteCountMaximum = 5_120

    /// Bytes of a group's title: one length byte on the wire, and half of that is a long name.
    public static let groupTitleByteCountMaximum = 128
    /// Bytes of a group's meta (5 kB).
    public static let groupMetaByteCountMaximum = 5_120
    /// Users on a group's allow list: with ids of 64 bytes one packet of 65,000 bytes holds them.
    public static let groupAllowedCountMaximum = 1_000

    /// Attributes of a message, and bytes of all keys and values together: a dozen facts beside a
    /// text of the default size, and half of that.
    public static let attributeCountMaximum = 16
    /// User properties of a publication among which its attributes are looked for.
    public static let attributePropertiesMaximum = 64
    public static let attributesByteCountMaximum = 512
    /// Bytes of a key of an attribute.
    public static let attributeKeyByteCountMaximum = 64
    /// Users whom a message to a group can mention: as many as a list can have.
    public static let mentionCountMaximum = 256
    /// Bytes of their names, each with its length: 256 ids of 59 bytes. With the other fields of a
    /// message they stay below ``fieldsByteCountMaximum``.
    public static let mentionsByteCountMaximum = 15_360

    /// Seconds of keep-alive, and packets of a window: what MQTT's 16-bit fields can say.
    public static let keepAliveSecondsMaximum: UInt16 = 65_535
    public static let windowMaximum: UInt16 = 65_535
    /// The smallest packet maximum that a client may ask for: a CONNACK of the longest fields is
    /// 120 bytes (PROTOCOL.md, "CONNACK").
    public static let packetMaximumMinimum = 128
    /// Bytes of a PROXY line with its CR LF: the longest in the specification (2.1).
    public static let proxyLineByteCountMaximum = 107
    /// Bytes of a binary PROXY header with its TLVs: those of haproxy and of cloud providers have
    /// less than 1 KiB together, and a client's certificate, which some proxies add, has 2 KiB.
    public static let proxyHeaderByteCountMaximum = 4_096

    /// This session expiry means "never" (MQTT 5.0 section 3.1.2.11.2).
    public static let sessionNeverExpires: UInt32 = 0xFFFF_FFFF

    /// Bytes of the fields of a message, all together: mentions of 256 users take less.
    public static let fieldsByteCountMaximum = 16_383

    /// Bytes of what a receiver tells about a message: two lines of a display.
    public static let receiptTextByteCountMaximum = 128
    /// Bytes of what a sender tells about a message that it recalls or replaces: the same.
    public static let revisionDetailByteCountMaximum = 128

    /// Wake targets of a user: its telephones, tablets and computers, and some that are not used
    /// any more.
    public static var wakeTargetMaximum: Int { 8 }
    /// Bytes of the address of a wake target: FCM's tokens and most URLs are shorter.
    public static var wakeAddressByteCountMaximum: Int { 2_048 }
    /// Bytes of a language tag: what RFC 5646 (section 4.4.1) names as enough.
    public static var languageByteCountMaximum: Int { 35 }
    /// Entries of one report of a relay: a step of the core takes them all.
    public static var wakeReportMaximum: Int { 32 }
    /// Bytes of the detail of an entry: a status and a reason of a push service.
    public static var wakeDetailByteCountMaximum: Int { 96 }
    /// Bytes of what a message has for those who are woken: APNs and FCM transport 4 KiB.
    public static var pushByteCountMaximum: Int { 4_096 }

    /// Messages of one page of history.
    public static var historyCountMaximum: UInt8 { 100 }
    /// Bytes of the text of a search: more than any word or id.
    public static var searchByteCountMaximum: UInt32 { 128 }
    /// Kept messages from before it joined that a new member may ask for.
    public static var backlogMaximum: UInt32 { 1_000_000 }
    /// Conversations with unread messages that CONNACK counts: there are as many, or more.
    public static var unreadCountMaximum: UInt8 { 50 }
}
