// A file of tokens that cannot be written to its end: what is in it, and what is told of it.

import Administration
import Foundation
import TestSurroundings
import Testing

@testable import martlet

@Suite struct TokenFileTests {
    @Test func `a file that breaks off is cut behind its last complete part`() throws {
        let files = try TemporaryDirectory()
        let path = files.file("tokens")
        let file = try TokenFile(path: path)
        #expect(file.rest() == "\(path) has no valid token")
        let tokens = ["ann", "bob"].map { MintTokens.Token(user: $0, id: "id", token: "secret") }
        try file.append(tokens, app: "demo", device: nil)
        let whole = try Data(contentsOf: URL(filePath: path))
        let writer = try #require(FileHandle(forWritingAtPath: path))
        try writer.seekToEnd()
        try writer.write(contentsOf: Data("demo,cid,,id,sec".utf8))
        #expect(file.rest() == "\(path) has 2 valid tokens in its first 3 lines")
        #expect(try Data(contentsOf: URL(filePath: path)) == whole)
    }
}
