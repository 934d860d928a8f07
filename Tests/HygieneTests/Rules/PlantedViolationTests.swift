// Each rule on texts that break it and on texts that look as if they did.
import Testing

@Suite struct PlantedViolationTests {
    @Test(arguments: [
        "func end(session: UInt32) {}",
        "func end(_ user: Int, at moment: Instant) {}",
        "func end<T: Equatable>(value: T, of senderIndex: UInt32?) -> T { value }",
        "init?(owner number: UInt32) {}",
        "subscript(connection: UInt32) -> Connection { table[connection] }",
        "func end(\n    moment: Instant,\n    messages: [Session], group: Int = 3\n) {}",
    ])
    func `a bare number for a row is found`(text: String) {
        #expect(Rules.bareEntities(in: SwiftText(text)).count == 1)
    }

    @Test(arguments: [
        "func end(session: Index<Session>) {}", "func end(sessionCount: Int) {}",
        "// func end(session: UInt32)", "let call = end(session: UInt32(3))",
        "let text = \"func end(session: UInt32)\"",
        "func end(session: Handle<Session>, at: UInt32)",
    ])
    func `a typed index, a count and a text are no bare number`(text: String) {
        #expect(Rules.bareEntities(in: SwiftText(text)).isEmpty)
    }

    @Test(arguments: [
        "func add(_ a: Int, _ b: Int, _ c: Int) {}",
        "init(_ a: Int, _ b: [Int: Int], named name: String, _ c: (Int, Int)) {}",
        "func add(_ a: Int, _ body: () -> Void, _ c: Int) {}",
        "static func < (_ a: Int, _ b: Int, _ c: Int) {}",
    ])
    func `three parameters without labels are found`(text: String) {
        #expect(Rules.unlabelled(in: SwiftText(text)) == [1])
    }

    @Test(arguments: [
        "func add(_ a: Int, _ b: Int, by c: Int) {}",
        "func add(_ a: Int, _ b: Int, _ body: (Int, Int) -> Void) {}",
        "func add(_ a: (Int, Int), _ b: Dictionary<Int, Int>) {}",
    ])
    func `two parameters without labels and a closure are not found`(text: String) {
        #expect(Rules.unlabelled(in: SwiftText(text)).isEmpty)
    }

    @Test func `a stored property that is not reset is found`() {
        let text = SwiftText(
            """
            struct Batch {
                var count = 0
                private(set) var rows: [Int] = []
                // missing: it stands in this comment alone
                public var missing: Int?
                let fixed = 0
                var isEmpty: Bool { rows.isEmpty }
                mutating func reset() {
                    count = 0
                    if !rows.isEmpty { rows.removeAll() }
                    // missing = nil
                }
                func after() { missing = 1 }
            }
            struct Other { var other = 0 }
            """)
        let missing = Rules.propertiesNotReset(in: text, type: "Batch", function: "reset")
        #expect(missing == ["missing"])
        #expect(Rules.propertiesNotReset(in: text, type: "Batch", function: "clear") == nil)
        #expect(Rules.propertiesNotReset(in: text, type: "Heap", function: "reset") == nil)
    }

    @Test func `a link to a symbol that is not declared is found`() {
        let text = """
            struct Table<Row> {
                let rowCount = 0
                func insert(_ row: Row, at index: Int = 0) -> Bool { true }
            }
            extension Outer.Part { enum Kind { case none, some(Int, of: Int) } }
            struct Other { let size = 0 }
            """
        var declarations = Declarations()
        declarations.add(SwiftText(text))
        declarations.add(SwiftText("struct Limits { let sizeMaximum = 0 }"))
        for link in [
            "Table", "rowCount", "Table/rowCount", "insert(_:at:)", "Part/some(_:of:)", "none",
            "Limits/sizeMaximum", "Core/Table/insert",
        ] {
            #expect(declarations.resolve(Substring(link)), "\(link)")
        }
        for link in [
            "Tables", "insert(_:)", "insert(_:to:)", "Limits/size", "Row/none", "some(_:)",
        ] {
            #expect(!declarations.resolve(Substring(link)), "\(link)")
        }
        let links = SwiftText("let a = 1\n/// See ``a`` and ``b(_:)``.").symbolLinks()
        #expect(links.map { "\($0.link) \($0.line)" } == ["a 2", "b(_:) 2"])
    }

    @Test(arguments: [
        "func read(_ bytes: UnsafeRawBufferPointer) {}",
        "let memory: UnsafeMutablePointer<Element>?",
        "let room = UnsafeMutableRawBufferPointer(start: nil, count: 0)",
    ])
    func `a pointer is found`(text: String) {
        #expect(Rules.pointers(in: SwiftText("let a = 1\n" + text)) == [2])
    }

    @Test(arguments: [
        "func read(_ bytes: RawSpan) {}", "// UnsafeRawPointer", "array.withUnsafeBytes { $0 }",
        "let text = \"UnsafeRawPointer\"", "struct UnsafeRawPointers {}",
    ])
    func `a span and a text are no pointer`(text: String) {
        #expect(Rules.pointers(in: SwiftText(text)).isEmpty)
    }

    @Test(arguments: [
        "precondition(count < 3)", "precondition(count < 3, \"too many\")",
        "fatalError(\"gone\")", "preconditionFailure()", "fatalError()",
        "precondition(names[\"\\(key)\"] != nil, \"no name\")",
    ])
    func `a trap without a value is found`(text: String) {
        #expect(Rules.silentTraps(in: SwiftText("let a = 1\n" + text)) == [2])
    }

    @Test(arguments: [
        "precondition(count < 3, \"\\(count) is above 2\")",
        "precondition(\n    count < 3,\n    \"many: \"\n        + \"\\(count)\")",
        "fatalError(\"\\(error)\")", "fatalError(message)", "// precondition(false)",
        "let text = \"precondition(false)\"", "assertPrecondition(false)",
    ])
    func `a trap with a value, a comment and a text are not found`(text: String) {
        #expect(Rules.silentTraps(in: SwiftText(text)).isEmpty)
    }

    @Test(arguments: [
        ("let laneCount = 3", "lane"), ("struct LaneLoop {", "lane"),
        ("// The lanes wait.", "lane"),
        ("let queue = MRTMailbox()", "mailbox"), ("case noteTaker", "note taker"),
        ("mutating func keepHouse() {}", "keep house"), ("docs: the Doorkeeper", "doorkeeper"),
    ])
    func `a forbidden word is found in names and prose`(line: String, word: String) {
        #expect(Rules.forbiddenWords(in: [line[...]]) == [word: 1])
    }

    @Test(arguments: [
        "the planet explains", "an e-mail address", "booked", "indoors", "notes taken",
    ])
    func `a longer word and an allowed phrase are not found`(line: String) {
        #expect(Rules.forbiddenWords(in: [line[...]]).isEmpty)
    }

    @Test func `rules find code after texts with interpolations and quotes`() {
        let text = SwiftText(
            #"""
            let a = "x \(names["y"] ?? "\"") z"; let b = #"a " b"#; let c = "\\"
            fatalError("gone")
            """#)
        #expect(Rules.silentTraps(in: text) == [2])
    }
}
