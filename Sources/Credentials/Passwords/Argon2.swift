// argon2id by libargon2. OpenSSL has it from version 3.2, and Debian 12 has 3.0
// (docs/decisions/0009-passwords.md).

import CArgon2

/// The costs of an argon2id hash.
struct Argon2Parameters: Hashable, Sendable {
    let memoryKibibytes: UInt32
    let passes: UInt32
    let parallelism: UInt32

    /// For new passwords: one of the equivalent settings that OWASP recommends, with the least
    /// memory, because several are verified at a time.
    static let standard = Argon2Parameters(memoryKibibytes: 7_168, passes: 5, parallelism: 1)
    /// Maximum memory: 64 MiB, as much for each verifying thread. Mosquitto 2.1 has 46 MiB.
    static let memoryKibibytesMaximum: UInt64 = 65_536
    /// Maximum of memory times passes: four passes over 64 MiB, about a third of a second.
    static let workMaximum: UInt64 = 4 * memoryKibibytesMaximum
    /// Maximum parallelism: the threads that libargon2 starts for a hash. Mosquitto has one.
    static let parallelismMaximum: UInt64 = 4

    init(memoryKibibytes: UInt32, passes: UInt32, parallelism: UInt32) {
        self.memoryKibibytes = memoryKibibytes
        self.passes = passes
        self.parallelism = parallelism
    }

    /// Reads `m=7168,t=5,p=1`.
    init(_ text: ArraySlice<UInt8>) throws(PasswordHashError) {
        let words = text.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        guard words.count == 3 else { throw .malformed }
        let memory = try Self.number(words[0], "m")
        let passes = try Self.number(words[1], "t")
        let parallelism = try Self.number(words[2], "p")
        func check(
            _ value: UInt64, of parameter: String, maximum: UInt64
        ) throws(PasswordHashError) {
            if value > maximum {
                throw .tooCostly(parameter: parameter, value: value, maximum: maximum)
            }
        }
        try check(memory, of: "the memory in KiB", maximum: Self.memoryKibibytesMaximum)
        try check(parallelism, of: "the parallelism", maximum: Self.parallelismMaximum)
        try check(passes, of: "the number of passes", maximum: Self.workMaximum)
        try check(
            memory * passes, of: "the memory in KiB times the passes", maximum: Self.workMaximum)
        // RFC 9106, 3.1.
        guard parallelism > 0, passes > 0, memory >= 8 * parallelism else { throw .malformed }
        self.init(
            memoryKibibytes: UInt32(memory), passes: UInt32(passes),
            parallelism: UInt32(parallelism))
    }

    private static func number(
        _ word: ArraySlice<UInt8>, _ name: String
    ) throws(PasswordHashError) -> UInt64 {
        let text = String(decoding: word, as: UTF8.self)
        // `UInt64` accepts a sign.
        guard text.hasPrefix("\(name)="), let first = text.utf8.dropFirst(2).first,
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first),
            let number = UInt64(text.dropFirst(2))
        else { throw .malformed }
        return number
    }

    var text: String { "m=\(memoryKibibytes),t=\(passes),p=\(parallelism)" }
}

enum Argon2 {
    static let success = ARGON2_OK.rawValue

    /// Hashes a password.
    ///
    /// - Parameter memory: for the hash; nil to allocate it.
    /// - Returns: libargon2's code: ``success``, or that memory is missing.
    static func hash(
        _ password: [UInt8], salt: [UInt8], _ parameters: Argon2Parameters,
        into digest: inout [UInt8], in memory: HashingMemory?
    ) -> Int32 {
        let count = digest.count
        guard let memory else {
            return argon2id_hash_raw(
                parameters.passes, parameters.memoryKibibytes, parameters.parallelism, password,
                password.count, salt, salt.count, &digest, count)
        }
        return memory.lend { allocate, release in
            martlet_argon2id_hash(
                parameters.passes, parameters.memoryKibibytes, parameters.parallelism, password,
                UInt32(password.count), salt, UInt32(salt.count), &digest, UInt32(count), allocate,
                release)
        }
    }
}
