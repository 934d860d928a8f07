// Names, short and long, compared with arrays.
import Testing

@testable import BrokerCore

@Suite struct NameTests {
    @Test func `a name of any length returns its bytes`() {
        for count in 0...80 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
            let name = Name(bytes)
            #expect(Array(name) == bytes)
            #expect(name.count == count)
            #expect(name.withUnsafeBytes { Array($0) } == bytes)
            #expect(name == bytes)
            #expect(name == Name(bytes))
        }
    }

    @Test func `names differ if their bytes do`() {
        let names = [
            [], [0], [0, 0], Array(repeating: 0, count: 22), Array(repeating: 0, count: 23),
            Array("pump".utf8), Array("pumps".utf8), Array(repeating: 7, count: 64),
        ].map { Name($0 as [UInt8]) }
        for (left, first) in names.enumerated() {
            for (right, second) in names.enumerated() {
                #expect((first == second) == (left == right))
                #expect((first == Array(second)) == (left == right))
            }
        }
        #expect(Set(names).count == names.count)
    }

    @Test func `a short name takes 24 bytes and no heap`() {
        #expect(MemoryLayout<Name>.stride == 24)
        guard case .short = Name(Array(repeating: 1, count: Name.inlineCountMaximum)).storage,
            case .long = Name(Array(repeating: 1, count: Name.inlineCountMaximum + 1)).storage
        else {
            Issue.record("the bound is elsewhere")
            return
        }
    }
}
