// Tables for people.
import Testing

@testable import martlet

@Suite struct TextTableTests {
    @Test func `columns are as wide as their widest field, titles included`() {
        var table = TextTable("USER", "N")
        table.add(["a", "1"])
        table.add(["longer name", ""])
        #expect(table.takePage() == ["USER         N", "a            1", "longer name  -"])
    }

    @Test func `titles are printed once, and an empty table prints nothing`() {
        var table = TextTable("A", "B")
        #expect(table.takePage() == [])
        table.add(["xx", "1"])
        _ = table.takePage()
        table.add(["y", "2"])
        #expect(table.takePage() == ["y   2"])
    }

    @Test func `an untrusted name moves no cursor and adds no row`() {
        var table = TextTable("A")
        table.add(["a\nb\u{1B}[2J"])
        #expect(table.takePage() == ["A", #"a\u{a}b\u{1b}[2J"#])
        #expect(textSheet(["a": "x\ny", "long name": ""]) == "a:         x\\u{a}y\nlong name: -")
    }

    @Test func `durations have the largest unit that fits twice`() {
        #expect(duration(seconds: 119) == "119 s")
        #expect(duration(seconds: 120) == "2 min")
        #expect(duration(seconds: 7 * 86_400) == "7 d")
        #expect(counted(1, "token") == "1 token" && counted(0, "token") == "0 tokens")
    }
}
