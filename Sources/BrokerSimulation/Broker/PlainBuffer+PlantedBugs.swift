// Changes of a loop's effects that only planted bugs make.

import Primitives

extension PlainBuffer {
    mutating func swapAt(_ first: Int, _ second: Int) {
        let element = self[first]
        self[first] = self[second]
        self[second] = element
    }

    /// Removes the elements that the condition selects; the rest keeps its order.
    mutating func removeAll(where isChosen: (Element) -> Bool) {
        let kept = elements.filter { !isChosen($0) }
        removeAll()
        append(contentsOf: kept)
    }
}
