// Hashes of passwords: those that Mosquitto and the argon2 program have made, and new ones.

import Testing

@testable import Credentials

@Suite struct PasswordHashTests {
    private static func hash(_ text: String) throws(PasswordHashError) -> PasswordHash {
        try PasswordHash(Array(text.utf8))
    }

    /// The password `pw1` by mosquitto_passwd 2.0.11, as it does by default and with `-H sha512`,
    /// and by the argon2 program with a parallelism of one and of four.
    private static let known = [
        "$7$101$EvkecEzTrIvfliNh$gK13wXey9RRCPFl9KdPUi09BdSRvIwcyZoHgeDoILchyyzVdAPWSmYxpXt6eYV/Z"
            + "3aMsj76osnvh56+ybNDmRg==",
        "$6$h1A6qlChHZgQBq0m$JbVEPp9DNNQoUtsjNs3FR+Gsv0CqLWlm0q7BDeRRm+OdFeG/S0uI7eq/G3l0r+2DSyzB"
            + "xf7B6iEQYb4TkBWs8Q==",
        "$argon2id$v=19$m=4096,t=1,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$m=4096,t=2,p=4$c2FsdHNhbHRzYWx0$IxvcEzgla6H+oJTPi4U2u7TBXrhcdIoUP5K+QVuI"
            + "kdcuZVz4XKpLtmUS3IGi4t/PzAMXWLH7WZ0jFb5P9r/5Rw",
    ]

    @Test(arguments: known)
    func `a hash of another program matches its password alone`(_ text: String) throws {
        let hash = try Self.hash(text)
        #expect(hash.matches(Array("pw1".utf8)) == true)
        #expect(hash.matches(Array("pw2".utf8)) == false)
        #expect(hash.matches([]) == false)
        #expect(String(decoding: hash.text, as: UTF8.self) == text)
    }

    @Test func `a new hash is argon2id with a salt of its own`() throws {
        let first = try PasswordHash(hashing: Array("secret".utf8))
        let second = try PasswordHash(hashing: Array("secret".utf8))
        #expect(first.text != second.text)
        #expect(first.kindName == "argon2id")
        let read = try PasswordHash(first.text)
        #expect(read.matches(Array("secret".utf8)) == true)
        #expect(read.matches(Array("Secret".utf8)) == false)
        #expect(try PasswordHash(hashing: []).matches([]) == true)
    }

    /// The memory of a larger hash serves smaller ones, and what one left there changes no other.
    @Test func `hashes that share memory are those that allocate it`() throws {
        let memory = HashingMemory()
        for text in Self.known + Self.known.reversed() {
            let hash = try Self.hash(text)
            #expect(hash.matches(Array("pw1".utf8), in: memory) == true)
            #expect(hash.matches(Array("pw2".utf8), in: memory) == false)
            #expect(hash.matches([], in: memory) == false)
            #expect(PasswordHash.verify(Array("pw2".utf8), against: hash, in: memory) == false)
        }
        memory.release()
        let last = try Self.hash(Self.known[2])
        #expect(last.matches(Array("pw1".utf8), in: memory) == true)
    }

    @Test func `nobody's password matches nothing`() {
        #expect(PasswordHash.ofNobody.matches(Array("".utf8)) == false)
        let long = [UInt8](repeating: 1, count: PasswordHash.passwordByteCountMaximum + 1)
        #expect(PasswordHash.ofNobody.matches(long) == false)
    }

    @Test(arguments: [
        "", "x", "plain", "$", "$5$c2FsdHNhbHQ$aaaa", "$2b$10$abcdefghijk",
        "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFA",
    ])
    func `a hash of another kind is told`(_ text: String) {
        #expect(throws: PasswordHashError.unknownKind) { try Self.hash(text) }
    }

    @Test(arguments: [
        "$7$101$EvkecEzTrIvfliNh", "$7$0$EvkecEzTrIvfliNh$gK13wXey9RRCPFl9KdPUi0==",
        "$7$-1$EvkecEzTrIvfliNh$gK13wXey9RRCPFl9KdPUi0==", "$6$a$b$c", "$6$!$b",
        "$6$EvkecEzTrIvfliNh$gK13wXey9RRCPFl9KdPUiw==", "$6$$",
        "$argon2id$v=16$m=4096,t=1,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$m=4096,t=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$t=1,m=4096,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$m=4096,t=+1,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$m=4,t=1,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$m=4096,t=0,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
        "$argon2id$v=19$m=4096,t=1,p=1$c2Fs$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIdsk",
    ])
    func `a broken hash is told`(_ text: String) {
        #expect(throws: PasswordHashError.malformed) { try Self.hash(text) }
    }

    @Test(arguments: [
        ("$7$250001$EvkecEzTrIvfliNh$gK13wXey9RRCPFl9KdPUiw==", 250_001),
        (
            "$argon2id$v=19$m=65537,t=1,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFNnzEG3RWHcGT+QDqyIIds",
            65_537
        ),
        ("$argon2id$v=19$m=4096,t=1,p=17$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFA", 17),
        ("$argon2id$v=19$m=65536,t=5,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFA", 327_680),
        (
            "$argon2id$v=19$m=65536,t=18446744073709551615,p=1$c2FsdHNhbHQ$AiMI378h0hasNiWn5CxPFA",
            UInt64.max
        ),
    ])
    func `a hash that costs too much is refused with its value`(
        _ text: String, _ value: UInt64
    ) {
        let error = #expect(throws: PasswordHashError.self) { try Self.hash(text) }
        guard case .tooCostly(_, value, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test(
        arguments: [
            ("", []), ("Zg", [0x66]), ("Zg==", [0x66]), ("Zm8", [0x66, 0x6F]),
            ("Zm9v", [0x66, 0x6F, 0x6F]), ("Zm9vYg==", [0x66, 0x6F, 0x6F, 0x62]),
        ] as [(String, [UInt8])])
    func `base64 is read with and without padding`(_ text: String, _ bytes: [UInt8]) {
        #expect(Base64.decode(Array(text.utf8)[...]) == bytes)
        let encoded = Base64.encode(bytes, isPadded: text.utf8.count % 4 == 0)
        #expect(encoded == Array(text.utf8))
    }

    @Test(arguments: ["Z", "Zg=", "Z===", "=", "Zg=x", "Zm9vY", "Zm 9", "Zm_v"])
    func `what is not base64 is refused`(_ text: String) {
        #expect(Base64.decode(Array(text.utf8)[...]) == nil)
    }
}
