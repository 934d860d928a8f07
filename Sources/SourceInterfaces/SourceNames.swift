// Names of users and devices are bytes. `==` of texts compares by canonical equivalence
// [Unicode 3.11], under which the Kelvin sign is the letter K, so two users would be one.

extension String {
    /// Whether two names have the same bytes.
    func isSameName(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}

extension Sequence<String> {
    /// Whether one of them has the same bytes as a name.
    func containsName(_ name: String) -> Bool { contains { $0.isSameName(as: name) } }
}
