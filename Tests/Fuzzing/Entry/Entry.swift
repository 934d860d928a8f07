// The entry point of libFuzzer. `make fuzz` links it with libFuzzer's driver; no program contains
// it.

import Fuzzing
import Glibc

/// The target by the name that `make fuzz` gives.
private let target: FuzzTarget = {
    guard let name = getenv("MARTLET_FUZZ_TARGET").map({ String(cString: $0) }),
        let target = FuzzTarget(rawValue: name)
    else {
        let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
        fatalError("MARTLET_FUZZ_TARGET is one of: \(names)")
    }
    return target
}()

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafeRawPointer?, _ byteCount: Int) -> CInt {
    target.run(UnsafeRawBufferPointer(start: bytes, count: byteCount))
    return 0
}
