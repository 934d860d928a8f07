// Ids of dialogs and messages, and the list grammar.

import Testing

@testable import SourceInterfaces

@Suite struct QuickBloxNameTests {
    @Test func `ids lead back to what they name`() throws {
        let dialogs: [DialogName] = [
            .group("37h1g2k3m4n5p6"), .between("bob", "alice"), .between("é", "z"),
            .between("a", "a"),
        ]
        for dialog in dialogs {
            #expect(DialogName(identifier: dialog.identifier) == dialog)
            let message = DialogMessageName(dialog: dialog, number: 7)
            #expect(DialogMessageName(identifier: message.identifier) == message)
        }
        #expect(DialogName.between("a", "b") == .between("b", "a"))
    }

    @Test(arguments: ["", "u-", "u-6", "u-zz", "u-612f622f63", "u-622f61", "u-612F62", "u-ff2f61"])
    func `what is the id of no dialog names none`(text: String) {
        #expect(DialogName(identifier: text) == nil)
    }

    @Test func `users whose ids are numbers have numbers`() {
        #expect(SourceValue.user("298") == .number(298))
        for name in ["0298", "bob", "+1", "99999999999999999999"] {
            #expect(SourceValue.user(name) == .text(name))
        }
    }

    private static let items: [[String: SourceValue]] = [
        [
            "_id": .text("a"), "type": .number(2),
            "occupants_ids": .array([.number(1), .number(2)]),
        ],
        ["_id": .text("b"), "type": .number(3), "occupants_ids": .array([.number(1)])],
        [
            "_id": .text("c"), "type": .number(10), "name": .text("Team"),
            "occupants_ids": .array([]),
        ],
    ]

    @Test(arguments: [
        ("type=3", "b"), ("type[ne]=3", "ac"), ("type[lt]=10", "ab"), ("type[lte]=10", "abc"),
        ("type[gt]=3", "c"), ("type[gte]=3", "bc"), ("type[in]=2,10", "ac"),
        ("type[nin]=2,10", "b"), ("type[or]=2,3", "ab"), ("occupants_ids[all]=1,2", "a"),
        ("occupants_ids=1", "ab"), ("name[ctn]=EA", "c"), ("name[gt]=A", "c"), ("", "abc"),
        ("occupants_ids[all]=", "abc"), ("occupants_ids[in]=", ""), ("name=null", "ab"),
        ("occupants_ids[nin]=1,2", "c"), ("occupants_ids[all]=1,1", "ab"),
        ("type[gt]=2&type[lt]=10", "b"), ("sort_desc=type", "cba"), ("sort_asc=type", "abc"),
    ])
    func `operators select and sort`(query: String, found: String) throws {
        let filter = try QuickBloxFilter(
            SourceField.read(Array(query.utf8)), of: QuickBloxInterface.dialogFields)
        let names = filter.select(Self.items).compactMap { $0["_id"]?.plainText }
        #expect(names.joined() == found)
    }

    @Test(arguments: [
        "type[like]=1", "type[eq]=1", "type[=1", "color=1", "photo=1", "limit=101", "limit=-1",
        "skip=1001", "count=2", "sort_asc=name", "type[in]=" + String(repeating: "1,", count: 101),
        "type[in]=" + String(repeating: "1,", count: 60) + "&type[in]="
            + String(repeating: "1,", count: 41),
        "name[ctn]=a&name[ctn]=b&name[ctn]=c&name[ctn]=d&name[ctn]=e",
    ])
    func `what the grammar does not have is refused with its field`(query: String) {
        let error = #expect(throws: SourceRefusal.self) {
            try QuickBloxFilter(
                SourceField.read(Array(query.utf8)), of: QuickBloxInterface.dialogFields)
        }
        #expect(error?.status == 400)
        #expect(error?.field.map { query.hasPrefix($0) } == true)
    }

    /// U+212A is the sign of Kelvin, which Unicode and `==` call equal to the letter K.
    @Test func `names that are equal for Unicode and differ in bytes are two users`() {
        let twin = "\u{212A}arl"
        #expect(twin == "Karl")
        let dialog = DialogName.between("Karl", "anna")
        #expect(dialog.other(than: "Karl") == "anna")
        #expect(dialog.other(than: twin) == nil)
        #expect(dialog != .between(twin, "anna"))
        #expect(!["Karl"].containsName(twin))
    }
}
