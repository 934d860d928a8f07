// Texts from clients and from operators: tokens and configuration.

import Configuration
import Credentials
import Glibc

/// A key with a known secret, so that the judge gets behind the signature of whoever can sign.
private let keys: VerificationKeys = {
    var keys = VerificationKeys()
    let secret = [UInt8](repeating: 0x6B, count: VerificationKey.sharedSecretByteCountMinimum)
    do {
        keys.set(try VerificationKey(sharedSecret: secret, path: "k"), id: "k", app: "app")
    } catch {
        preconditionFailure("the key of the fuzzing is refused: \(error)")
    }
    return keys
}()

func fuzzTokens(_ bytes: UnsafeRawBufferPointer) {
    let presented = RawSpan(_unsafeBytes: bytes)
    if OpaqueToken(presented: presented) != nil {
        precondition(OpaqueToken.isToken(presented))
        precondition(bytes.count == OpaqueToken.byteCount)
    }
    _ = try? JSONWebToken(verifying: presented, keys: keys, unixSeconds: 1_790_000_000)
}

/// What is accepted is printed as something that is accepted and means the same.
func fuzzConfiguration(_ bytes: UnsafeRawBufferPointer) {
    guard let loaded = try? LoadedConfiguration(text: Array(bytes), path: "fuzz") else { return }
    let printed = loaded.printed
    do {
        let again = try LoadedConfiguration(text: Array(printed.utf8), path: "printed")
        precondition(again.printedValues == loaded.printedValues, "printed otherwise:\n\(printed)")
    } catch {
        preconditionFailure("what was printed is refused: \(error)\n\(printed)")
    }
}

extension LoadedConfiguration {
    /// The printed form without the origins.
    fileprivate var printedValues: [Substring] {
        printed.split(separator: "\n").map { line in
            guard let comment = line.ranges(of: ",  // ").last else { return line }
            return line[..<comment.lowerBound]
        }
    }
}
