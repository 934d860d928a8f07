// Packets for fuzzing a loop: bytes in, a packet of the chosen kind out, usually a valid one. It
// shares no code with the broker's codecs.

/// Writes the fields of packets.
struct PacketBytes {
    var bytes: [UInt8] = []

    mutating func byte(_ value: UInt8) { bytes.append(value) }
    mutating func raw(_ value: [UInt8]) { bytes += value }

    mutating func uint16(_ value: Int) {
        bytes += [UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value)]
    }

    mutating func uint32(_ value: UInt32) {
        for shift in stride(from: 24, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> UInt32(shift)))
        }
    }

    mutating func fixed8(_ value: UInt64) {
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(shift)))
        }
    }

    mutating func varInt(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// One byte of length.
    mutating func string8(_ value: [UInt8]) {
        byte(UInt8(truncatingIfNeeded: value.count))
        raw(Array(value.prefix(255)))
    }

    mutating func stringV(_ value: [UInt8]) {
        varInt(UInt64(value.count))
        raw(value)
    }

    /// Two bytes of length.
    mutating func string16(_ value: [UInt8]) {
        uint16(value.count)
        raw(value)
    }

    /// The whole packet with its fixed header.
    static func packet(_ typeAndFlags: UInt8, _ fill: (inout PacketBytes) -> Void) -> [UInt8] {
        var body = PacketBytes()
        fill(&body)
        var packet = PacketBytes()
        packet.byte(typeAndFlags)
        packet.varInt(UInt64(body.bytes.count))
        packet.raw(body.bytes)
        return packet.bytes
    }

    /// MQTT properties with their length in front.
    mutating func properties(_ fill: (inout PacketBytes) -> Void) {
        var section = PacketBytes()
        fill(&section)
        varInt(UInt64(section.bytes.count))
        raw(section.bytes)
    }

    mutating func userProperty(_ name: String, _ value: [UInt8]) {
        byte(0x26)
        string16(Array(name.utf8))
        string16(value)
    }
}

/// Words that packets are made of. The core lets some of them through nowhere.
enum FuzzWords {
    static let users: [[UInt8]] = ["anna", "bert", "carl", "gate", "$SYS", "zoe", "+", ""]
        .map { Array($0.utf8) }
    static let devices: [[UInt8]] = ["", "d1", "d2", "$SYS", "%u", "$share", "only", "a#"]
        .map { Array($0.utf8) }
    static let topics: [[UInt8]] = [
        "a/b", "a/c", "site/anna/x", "site/bert/x", "only/this", "d1/x", "", "a//b",
        "$u/anna", "$u/bert", "$u", "$b", "$u/carl", "$u/zoe", "$SYS/broker/version", "$x/y",
    ].map { Array($0.utf8) }
    static let filters: [[UInt8]] = [
        "a/b", "a/+", "#", "a/#", "$SYS/#", "$SYS/broker/+", "$share/s/a/#", "$share/s/a/b",
        "$share/t/#", "$presence/anna", "$presence/+", "$u/anna", "$u/#", "$b", "only/this",
        "site/+/x", "d1/#", "$share//a", "a/#/b", "+/+", "$share/s/$SYS/#", "$share/s/", "", "/",
    ].map { Array($0.utf8) }
    static let messageIdentifiers: [[UInt8]] = ["", "m1", "m2", "m3"].map { Array($0.utf8) }

    static func payload(_ choice: UInt8) -> [UInt8] {
        switch choice & 7 {
        case 0: Array("{\"t\":\"0\",\"b\":\"hello\"}".utf8)
        case 1: [0x00, 0x68, 0x69]
        case 2: []
        case 3: Array("{\"t\":\"200\",\"b\":\"\\u00fc\\n\"}".utf8)
        case 4: [UInt8](repeating: 0x61, count: 300)
        case 5: [0x00] + [UInt8](repeating: 0x61, count: 1_009)
        case 6: [UInt8](repeating: 0x62, count: 3_000)
        default: [choice]
        }
    }
}

/// Makes packets of what an input says next. It knows what its peer speaks.
struct PacketBuilder {
    enum Dialect { case mrt, mqtt3, mqtt5 }

    var dialect = Dialect.mrt
    /// Ids of the groups there are: the broker makes them up.
    var groups: [[UInt8]] = []
    var isFive: Bool { dialect == .mqtt5 }

    // MARK: - CONNECT

    /// `takes` is set to the packet maximum that it says.
    mutating func connect(_ input: inout InputReader, takes: inout Int) -> [UInt8] {
        let choice = input.readByte()
        dialect = [.mrt, .mqtt3, .mqtt5, .mrt][Int(choice & 3)]
        takes = 0
        return dialect == .mrt
            ? connectMRT(&input, flags: input.readByte(), takes: &takes)
            : connectMQTT(&input, flags: input.readByte(), takes: &takes)
    }

    private func connectMRT(
        _ input: inout InputReader, flags: UInt8, takes: inout Int
    ) -> [UInt8] {
        let (device, window, maximum) = (input.readByte(), input.readByte(), input.readByte())
        takes = maximum & 3 == 1 ? 128 : maximum & 3 == 2 ? 700 : 0
        let takesMaximum = takes
        let credential = Self.credential(&input)
        let number = { (input: inout InputReader) in UInt64(input.readByte()) }
        return PacketBytes.packet(0x10) { body in
            body.string16(Array("MRT".utf8))
            body.byte(1)
            body.byte(flags & 0x3F | (credential.isEmpty ? 0 : 0x40))
            body.varInt(UInt64(window >> 4) * 10)
            body.varInt(UInt64(window & 15) + 1)
            body.varInt(UInt64(takesMaximum))
            body.string8(FuzzWords.devices[Int(device) % FuzzWords.devices.count])
            body.raw(credential)
            if flags & 0x04 != 0 {
                body.fixed8(number(&input))
                body.varInt(number(&input) & 31)
            }
            if flags & 0x08 != 0 { body.fixed8(number(&input)) }
            if flags & 0x10 != 0 {
                body.fixed8(number(&input) & 3 | 1)
                let seen = number(&input) & 7
                body.varInt(seen)
                body.varInt(seen + number(&input) & 7)
            }
            if flags & 0x20 != 0 { body.varInt([0, 1, 60, 0xFFFF_FFFF][Int(number(&input) & 3)]) }
        }
    }

    /// An MRT credential with its kind, or nothing.
    private static func credential(_ input: inout InputReader) -> [UInt8] {
        let choice = input.readByte()
        var bytes = PacketBytes()
        switch choice & 7 {
        case 0: break
        case 1...4:
            bytes.byte(1)
            bytes.stringV(FuzzCredentials.token(choice >> 3, isJSON: choice & 7 > 2))
        case 5:
            bytes.byte(2)
            bytes.string8(FuzzCredentials.app)
            bytes.string8(FuzzCredentials.appKey)
            bytes.string8(FuzzWords.users[Int(choice >> 3) & 7])
        case 6:
            bytes.byte(3)
            bytes.string8(FuzzWords.users[Int(choice >> 3) & 7])
        default:
            bytes.byte(1)
            bytes.stringV([UInt8](repeating: choice, count: 9))
        }
        return bytes.bytes
    }

    private func connectMQTT(
        _ input: inout InputReader, flags: UInt8, takes: inout Int
    ) -> [UInt8] {
        let (device, times, choice) = (input.readByte(), input.readByte(), input.readByte())
        let (proof, options) = (input.readByte(), input.readByte())
        if isFive { takes = options & 0x18 == 0x08 ? 20 : options & 0x18 == 0x10 ? 700 : 0 }
        let (takesMaximum, isFive) = (takes, self.isFive)
        let authenticates = isFive && proof & 7 == 3
        let hasUser = proof & 7 != 0 && !authenticates
        let hasWill = flags & 0x04 != 0
        var will = PacketBytes()
        if hasWill { writeWill(&will, &input) }
        let willQoS = min(flags >> 3 & 3, 2)
        let willBits = hasWill ? 0x04 | willQoS << 3 | flags & 0x20 : 0
        return PacketBytes.packet(0x10) { body in
            body.string16(Array("MQTT".utf8))
            body.byte(isFive ? 5 : 4)
            body.byte(flags & 0x02 | willBits | (hasUser ? 0xC0 : 0))
            body.uint16(Int(times & 15) * 5)
            if isFive {
                body.properties { section in
                    section.byte(0x11)
                    section.uint32([0, 1, 60, .max][Int(times >> 4 & 3)])
                    section.byte(0x21)
                    section.uint16(Int(choice & 15) + 1)
                    if choice & 0x10 != 0 { section.raw([0x22, 0x00, 0x03]) }
                    if choice & 0x20 != 0 { section.raw([0x17, 0x00]) }
                    if takesMaximum > 0 {
                        section.byte(0x27)
                        section.uint32(UInt32(takesMaximum))
                    }
                    if authenticates || options & 1 != 0 && isFive {
                        section.byte(0x15)
                        section.string16(FuzzCredentials.method)
                        section.byte(0x16)
                        section.string16(FuzzCredentials.token(proof >> 3, isJSON: true))
                    }
                }
            }
            body.string16(FuzzWords.devices[Int(device) % FuzzWords.devices.count])
            body.raw(will.bytes)
            if hasUser {
                let user = FuzzWords.users[Int(proof >> 3) & 7]
                body.string16(proof & 1 == 0 ? user : FuzzCredentials.app + [0x2F] + user)
                body.string16(
                    proof & 7 == 5
                        ? FuzzCredentials.appKey
                        : FuzzCredentials.token(proof >> 3, isJSON: proof & 2 != 0))
            }
        }
    }

    private func writeWill(_ will: inout PacketBytes, _ input: inout InputReader) {
        let (topic, choice, to) = (input.readByte(), input.readByte(), input.readByte())
        if isFive {
            will.properties { section in
                if choice & 0x10 != 0 {
                    section.byte(0x18)
                    section.uint32(UInt32(choice >> 5))
                }
                writeReceivers(&section, to)
            }
        }
        will.string16(self.topic(topic))
        will.string16(FuzzWords.payload(choice))
    }

    /// User properties: receivers by bits, and the message's own id.
    private func writeReceivers(_ section: inout PacketBytes, _ choice: UInt8) {
        for user in 0..<4 where choice & 1 << UInt8(user) != 0 {
            section.userProperty("to", FuzzWords.users[user])
        }
        let identifier = FuzzWords.messageIdentifiers[Int(choice >> 4 & 3)]
        if !identifier.isEmpty { section.userProperty("mid", identifier) }
        if choice & 0x40 != 0 { section.userProperty("from", Array("x".utf8)) }
        if choice & 0x80 != 0 { section.userProperty("k", Array("v".utf8)) }
    }

    /// A topic, or the address of a group there is.
    private func topic(_ choice: UInt8) -> [UInt8] {
        if choice & 0x80 != 0, let group = group(choice) { return Array("$g/".utf8) + group }
        return FuzzWords.topics[Int(choice) % FuzzWords.topics.count]
    }

    func group(_ choice: UInt8) -> [UInt8]? {
        groups.isEmpty ? nil : groups[Int(choice & 0x7F) % groups.count]
    }

    // MARK: - AUTH

    func authenticate(_ input: inout InputReader) -> [UInt8] {
        if dialect == .mrt {
            let credential = Self.credential(&input)
            return PacketBytes.packet(0xF0) { $0.raw(credential) }
        }
        let choice = input.readByte()
        return PacketBytes.packet(0xF0) { body in
            body.byte(choice & 7 == 7 ? 0x18 : 0x19)
            body.properties { section in
                section.byte(0x15)
                section.string16(FuzzCredentials.method)
                section.byte(0x16)
                section.string16(FuzzCredentials.token(choice >> 3, isJSON: choice & 1 == 0))
            }
        }
    }

    // MARK: - Messages

    func send(_ input: inout InputReader) -> [UInt8] {
        let (grade, target) = (input.readByte(), input.readByte())
        let (payload, options) = (input.readByte(), input.readByte())
        return dialect == .mrt
            ? sendMRT(grade: grade, target: target, payload: payload, options: options)
            : publish(grade: grade, target: target, payload: payload, options: options)
    }

    private func sendMRT(
        grade: UInt8, target: UInt8, payload: UInt8, options: UInt8
    ) -> [UInt8] {
        let stored = min(grade & 3, 2)
        let isTopic = target & 7 == 4
        let isRaw = isTopic && grade & 0x80 != 0
        let identifier = FuzzWords.messageIdentifiers[Int(options & 3)]
        let bits: UInt8 =
            (identifier.isEmpty ? 0 : 1) | (options & 4 != 0 ? 2 : 0) | (options & 8 != 0 ? 4 : 0)
        let flags = stored | (bits != 0 ? 4 : 0) | (isRaw ? 8 : 0)
        return PacketBytes.packet(0x30 | flags) { body in
            if stored > 0 { body.varInt(UInt64(grade >> 2 & 31)) }
            if bits != 0 {
                body.byte(bits)
                if bits & 1 != 0 { body.string8(identifier) }
                if bits & 2 != 0 { body.varInt(1) }
                if bits & 4 != 0 { body.varInt(1_790_000_000_000) }
            }
            writeTarget(&body, target)
            body.raw(isRaw ? FuzzWords.payload(payload) : [payload] + FuzzWords.payload(payload))
        }
    }

    private func writeTarget(_ body: inout PacketBytes, _ choice: UInt8) {
        switch choice & 7 {
        case 0, 5:
            body.byte(0)
            body.string8(FuzzWords.users[Int(choice >> 3) & 7])
        case 1, 6:
            let users = (0..<4).filter { choice >> 3 & 1 << UInt8($0) != 0 }
            body.byte(1)
            body.varInt(UInt64(users.count))
            for user in users { body.string8(FuzzWords.users[user]) }
        case 2:
            body.byte(2)
            body.string8(group(choice >> 3) ?? [])
        case 3: body.byte(3)
        default:
            body.byte(4)
            body.stringV(FuzzWords.topics[Int(choice >> 3) % FuzzWords.topics.count])
        }
    }

    private func publish(
        grade: UInt8, target: UInt8, payload: UInt8, options: UInt8
    ) -> [UInt8] {
        let qos = min(grade & 3, 2)
        let flags = qos << 1 | (grade & 0x80 != 0 ? 1 : 0) | (qos > 0 && grade & 0x40 != 0 ? 8 : 0)
        let usesAlias = isFive && options & 0x08 != 0
        return PacketBytes.packet(0x30 | flags) { body in
            body.string16(usesAlias && options & 0x04 != 0 ? [] : topic(target))
            if qos > 0 { body.uint16(Int(grade >> 2 & 15) + 1) }
            if isFive {
                body.properties { section in
                    if usesAlias { section.raw([0x23, 0x00, options & 3]) }
                    if payload & 0x80 != 0 { section.raw([0x02, 0, 0, 0, 1]) }
                    writeReceivers(&section, options & 0xF8 | target >> 4)
                }
            }
            body.raw(FuzzWords.payload(payload))
        }
    }

    // MARK: - Requests

    func subscribe(_ input: inout InputReader) -> [UInt8] {
        let (identifier, choice) = (input.readByte(), input.readByte())
        let count = dialect == .mrt ? 1 : Int(choice >> 6) + 1
        let filters = (0..<count).map { _ in filter(input.readByte()) }
        if dialect == .mrt {
            return request(identifier, operation: 1) {
                $0.byte(choice & 3)
                $0.raw(filters[0])
            }
        }
        return PacketBytes.packet(0x82) { body in
            body.uint16(Int(identifier & 15) + 1)
            if isFive {
                body.properties { if choice & 4 != 0 { $0.raw([0x0B, 7]) } }
            }
            for filter in filters {
                body.string16(filter)
                body.byte(min(choice & 3, 2) | (isFive ? choice & 0x38 : 0))
            }
        }
    }

    func unsubscribe(_ input: inout InputReader) -> [UInt8] {
        let (identifier, choice) = (input.readByte(), input.readByte())
        let filter = filter(choice)
        if dialect == .mrt { return request(identifier, operation: 2) { $0.raw(filter) } }
        return PacketBytes.packet(0xA2) { body in
            body.uint16(Int(identifier & 15) + 1)
            if isFive { body.byte(0) }
            for _ in 0...(identifier >> 6) { body.string16(filter) }
        }
    }

    private func filter(_ choice: UInt8) -> [UInt8] {
        if choice & 0x80 != 0, let group = group(choice) { return Array("$g/".utf8) + group }
        return FuzzWords.filters[Int(choice) % FuzzWords.filters.count]
    }

    private func request(
        _ identifier: UInt8, operation: UInt8, _ fill: (inout PacketBytes) -> Void
    ) -> [UInt8] {
        PacketBytes.packet(0x70) { body in
            body.varInt(UInt64(identifier & 15) + 1)
            body.byte(operation)
            fill(&body)
        }
    }

    /// Groups, wills and presence; more of them in MQTT.
    func ask(_ input: inout InputReader) -> [UInt8] {
        guard dialect == .mrt else { return publishRequest(&input) }
        let (operation, choice) = (input.readByte(), input.readByte())
        let identifier = input.readByte()
        let name = group(choice) ?? Array("none".utf8)
        let user = FuzzWords.users[Int(choice >> 4) & 7]
        switch operation % 14 {
        case 0, 1:
            return request(identifier, operation: 16) { body in
                body.fixed8(UInt64(choice & 3))
                body.string8(Array("title".utf8))
                body.stringV(FuzzWords.payload(choice >> 5))
                writeAllowed(&body, choice)
            }
        case 2: return request(identifier, operation: 17) { $0.string8(name) }
        case 3: return request(identifier, operation: 18) { $0.string8(name) }
        case 4, 5:
            return request(identifier, operation: operation % 14 == 4 ? 19 : 20) {
                $0.string8(name)
                $0.string8(user)
            }
        case 6:
            return request(identifier, operation: 21) { $0.string8(choice & 1 == 0 ? [] : name) }
        case 7:
            return request(identifier, operation: 22) {
                $0.string8(name)
                $0.string8(choice & 1 == 0 ? [] : user)
            }
        case 8:
            return request(identifier, operation: 23) {
                $0.string8(name)
                $0.raw(FuzzWords.payload(identifier >> 5))
            }
        case 9:
            return request(identifier, operation: 24) {
                $0.string8(name)
                writeAllowed(&$0, identifier)
            }
        case 10, 11:
            return request(identifier, operation: 3) { body in
                body.varInt(UInt64(identifier >> 4))
                let isRaw = choice & 7 == 4 && identifier & 8 != 0
                body.byte(isRaw ? 1 : 0)
                writeTarget(&body, choice)
                body.raw([0] + FuzzWords.payload(identifier))
            }
        case 12: return request(identifier, operation: 4) { _ in }
        default: return request(identifier, operation: 5) { $0.string8(user) }
        }
    }

    private func writeAllowed(_ body: inout PacketBytes, _ choice: UInt8) {
        if choice & 1 == 0 {
            body.byte(0)
            return
        }
        body.byte(1)
        for user in 0..<4 where choice >> 1 & 1 << UInt8(user) != 0 {
            body.string8(FuzzWords.users[user])
        }
    }

    // MARK: - Acknowledgements

    func acknowledge(_ input: inout InputReader) -> [UInt8] {
        let (choice, number) = (input.readByte(), input.readByte())
        if dialect == .mrt {
            let flags = max(1, choice & 3)
            return PacketBytes.packet(0x60 | flags) { body in
                if flags & 1 != 0 { body.varInt(UInt64(number & 31) + 1) }
                if flags & 2 != 0 { body.varInt(UInt64(number >> 3) + 1) }
            }
        }
        let types: [UInt8] = [0x40, 0x50, 0x62, 0x70]
        return PacketBytes.packet(types[Int(choice & 3)]) { body in
            body.uint16(Int(number & 31) + 1)
            if isFive, choice & 4 != 0 { body.byte(choice & 8 != 0 ? 0x80 : 0) }
        }
    }

    func ping() -> [UInt8] { [0xC0, 0x00] }

    func disconnect(_ input: inout InputReader) -> [UInt8] {
        let choice = input.readByte()
        return PacketBytes.packet(0xE0) { body in
            if choice & 1 != 0, dialect != .mqtt3 {
                body.byte(choice & 2 != 0 ? 0x04 : 0)
                if dialect == .mrt, choice & 4 != 0 { body.varInt(UInt64(choice >> 4)) }
                if isFive, choice & 4 != 0 { body.raw([0x05, 0x11, 0, 0, 0, choice >> 4]) }
            }
        }
    }

    /// A packet on a channel of a gateway.
    static func channel(_ number: UInt8, _ inner: [UInt8]) -> [UInt8] {
        PacketBytes.packet(0xA0) { body in
            body.varInt(UInt64(number & 7))
            body.raw(inner)
        }
    }
}
