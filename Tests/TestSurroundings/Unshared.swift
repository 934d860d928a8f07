// Collections that leave a lock in storage of their own. A copy would share it until one of the two
// changes. That is sound, but the thread sanitizer does not see how the runtime counts references,
// and takes the next change in place, under the lock, for a race with those who read the copy.

extension Array {
    package var unshared: [Element] { map { $0 } }
}

extension Set {
    package var unshared: Set<Element> { Set(map { $0 }) }
}
