// Whether the system has pseudo-terminals, which replace serial lines. Some containers have none.

import Foundation
import Testing

extension Trait where Self == ConditionTrait {
    static var needsPseudoTerminals: Self {
        .enabled(
            if: PseudoTerminals.areThere,
            "there are no pseudo-terminals: /dev/ptmx or /dev/pts is missing (mount devpts)")
    }
}

private enum PseudoTerminals {
    static let areThere: Bool = {
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        guard descriptor >= 0 else { return false }
        close(descriptor)
        // The far ends are files of a file system of its own.
        return access("/dev/pts", F_OK) == 0
    }()
}
