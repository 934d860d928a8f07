// The directory of files, and the parts of files that requests ask for.

import Foundation
import TestSurroundings
import Testing

@testable import BrokerRuntime

@Suite struct FileStoreTests {
    private let files: TemporaryDirectory
    private let png: StoredFileType

    init() throws {
        files = try TemporaryDirectory("files")
        png = try #require(StoredFileType(mediaType: "image/png"))
    }

    private func store(bytesPerApp: Int = 1_000, userPercent: Int = 100) throws -> FileStore {
        try FileStore(
            directory: files.path,
            quota: FileQuota(appBytes: bytesPerApp, userPercent: userPercent), ageSeconds: 100)
    }

    private func content(
        of name: StoredFileName, _ store: FileStore, app: String = "demo",
        seconds: UInt64 = 0
    ) -> String? {
        let place = FileStore.place(ofApp: app)
        guard let file = store.open(name, place: place, seconds: seconds) else {
            return nil
        }
        defer { close(file.descriptor) }
        let text = try? FileHandle(fileDescriptor: file.descriptor).readToEnd()
        return String(decoding: text ?? Data(), as: UTF8.self)
    }

    private func put(
        _ text: String, _ store: FileStore, from user: String = "alice", app: String = "demo",
        at seconds: UInt64 = 0
    ) throws -> StoredFileName {
        try store.put(Array(text.utf8), type: png, from: user, app: app, seconds: seconds)
    }

    /// Names in the directory of files, or of an app.
    private func entries(_ folder: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "\(files.path)/\(folder)").sorted()
    }

    @Test func `a file is there once, for its app, and after a restart`() throws {
        let store = try store()
        let now: UInt64 = 10
        let name = try put("a", store, at: now)
        #expect(try put("a", store, at: now) == name)
        #expect(try put("b", store, at: now) != name)
        #expect(try put("a", store, app: "other", at: now) != name)
        #expect(store.amount == AppFiles.Amount(fileCount: 3, byteCount: 3))
        #expect(content(of: name, store, seconds: now) == "a")
        #expect(content(of: name, store, app: "other", seconds: now) == nil)
        let later = try self.store()
        #expect(content(of: name, later, seconds: now) == "a")
        #expect(try put("a", later, at: now) == name)
    }

    @Test func `the clock of the system neither ends a file nor prolongs it`() throws {
        let name = try put("a", store(), at: 50)
        for _ in 0..<2 {
            let later = try store()
            later.begin(seconds: 60)
            #expect(content(of: name, later, seconds: 150) == "a")
            #expect(content(of: name, later, seconds: 151) == nil)
        }
    }

    @Test func `a file of another clock begins its time when the broker starts`() throws {
        let name = try put("a", store(), at: 2_000_000_000)
        let other = try put("b", store(), at: 10)
        let later = try store()
        later.begin(seconds: 20)
        #expect(content(of: name, later, seconds: 120) == "a")
        #expect(content(of: name, later, seconds: 121) == nil)
        #expect(content(of: other, later, seconds: 111) == nil)
        let again = try store()
        again.begin(seconds: 100)
        #expect(content(of: name, again, seconds: 121) == nil)
        while again.expire(seconds: 121) {}
        #expect(again.amount == AppFiles.Amount())
    }

    @Test func `an app has its quota`() throws {
        let store = try store(bytesPerApp: 3)
        _ = try put("aa", store)
        let error = #expect(throws: FileStore.Refusal.self) { try put("bb", store) }
        #expect({ if case .quota? = error { true } else { false } }())
        _ = try put("b", store)
        _ = try put("cc", store, app: "other")
        // What is too old makes room.
        _ = try put("ccc", store, at: 101)
    }

    @Test func `a file ends with its age, which begins anew with each send`() throws {
        let store = try store()
        let (first, second) = (try put("a", store), try put("b", store))
        _ = try put("a", store, at: 50)
        #expect(content(of: second, store, seconds: 101) == nil)
        while store.expire(seconds: 101) {}
        #expect(content(of: first, store, seconds: 101) == "a")
        #expect(content(of: second, store) == nil)
        while store.expire(seconds: 151) {}
        #expect(content(of: first, store) == nil)
    }

    @Test func `one look removes a bounded number of files`() throws {
        let store = try store()
        let count = FileStoreLimits.expiredPerStepMaximum + 1
        let names = try (0..<count).map { try put("\($0)", store) }
        #expect(store.expire(seconds: 200))
        #expect(names.filter { content(of: $0, store) != nil }.count == 1)
        #expect(!store.expire(seconds: 200))
        #expect(names.allSatisfy { content(of: $0, store) == nil })
    }

    @Test func `what is no file of a type is not read, and half of one is removed`() throws {
        _ = try put("a", store())
        let folder = "\(files.path)/\(FileStore.place(ofApp: "demo"))"
        let digest = String(repeating: "0", count: 64)
        for name in ["\(digest).png.new", "\(digest).html", "\(digest)", "x.png"] {
            try Data("x".utf8).write(to: URL(filePath: "\(folder)/\(name)"))
        }
        symlink("/etc/passwd", "\(folder)/\(digest).txt")
        let store = try store()
        #expect(!FileManager.default.fileExists(atPath: "\(folder)/\(digest).png.new"))
        for ending in ["png", "txt"] {
            let name = StoredFileName(digest: digest, ending: ending)
            #expect(content(of: name, store) == nil)
        }
    }

    /// The steps of a store, after each of which the broker may end.
    enum Step: CaseIterable {
        case nothing, folder, emptyFile, half, whole, renamed
    }

    @Test(arguments: Step.allCases)
    func `what an earlier broker has left at each step is a whole file or nothing`(
        step: Step
    ) throws {
        let place = FileStore.place(ofApp: "demo")
        let folder = "\(files.path)/\(place)"
        let name = try put("abcd", store())
        let path = "\(folder)/\(try #require(entries(place).first))"
        let manager = FileManager.default
        if step != .renamed { try manager.removeItem(atPath: path) }
        switch step {
        case .nothing: try manager.removeItem(atPath: folder)
        case .folder, .renamed: break
        case .emptyFile: try Data().write(to: URL(filePath: path + ".new"))
        case .half: try Data("ab".utf8).write(to: URL(filePath: path + ".new"))
        case .whole: try Data("abcd".utf8).write(to: URL(filePath: path + ".new"))
        }
        let now: UInt64 = 10
        let store = try store(bytesPerApp: 4)
        #expect(!manager.fileExists(atPath: path + ".new"))
        let isThere = step == .renamed
        #expect(content(of: name, store, seconds: now) == (isThere ? "abcd" : nil))
        #expect(
            store.amount
                == AppFiles.Amount(fileCount: isThere ? 1 : 0, byteCount: isThere ? 4 : 0))
        // The client, who got no answer, sends it again.
        #expect(try put("abcd", store, at: now) == name)
        #expect(content(of: name, store, seconds: now) == "abcd")
        #expect(store.amount == AppFiles.Amount(fileCount: 1, byteCount: 4))
        #expect(throws: FileStore.Refusal.self) { try put("e", store, at: now) }
    }

    @Test func `half of a key is made anew, and a key that is damaged stops the start`() throws {
        try Data("half".utf8).write(to: URL(filePath: "\(files.path)/key.new"))
        let name = try put("a", store())
        #expect(try put("a", store()) == name)
        #expect(!FileManager.default.fileExists(atPath: "\(files.path)/key.new"))
        try Data("short".utf8).write(to: URL(filePath: "\(files.path)/key"))
        #expect(throws: StartError.self) { try store() }
    }

    @Test func `a file that is sent twice costs once, and ends with the last send`() throws {
        let store = try store(bytesPerApp: 3)
        let first = try put("abc", store)
        for second in stride(from: UInt64(50), to: 400, by: 50) {
            #expect(try put("abc", store, at: second) == first)
            while store.expire(seconds: second) {}
        }
        #expect(store.amount == AppFiles.Amount(fileCount: 1, byteCount: 3))
        #expect(store.expiredCount == 0)
        while store.expire(seconds: 451) {}
        #expect(content(of: first, store, seconds: 451) == nil)
        #expect(store.amount == AppFiles.Amount() && store.expiredCount == 1)
        let folder = "\(files.path)/\(FileStore.place(ofApp: "demo"))"
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
    }

    @Test func `a file that is missing on disk is kept again, and counts once`() throws {
        let store = try store(bytesPerApp: 5)
        let name = try put("aa", store)
        let place = FileStore.place(ofApp: "demo")
        let entry = try #require(entries(place).first)
        try FileManager.default.removeItem(atPath: "\(files.path)/\(place)/\(entry)")
        #expect(try put("aa", store, at: 50) == name)
        #expect(content(of: name, store, seconds: 50) == "aa")
        let other = try put("bbb", store, at: 50)
        while store.expire(seconds: 200) {}
        #expect([name, other].allSatisfy { content(of: $0, store) == nil })
        _ = try put("ccccc", store, at: 200)
    }

    @Test func `a file that is sent again stays for its age after the last send, and no longer`()
        throws
    {
        let store = try store()
        let first = try put("a", store)
        _ = try put("a", store, at: 90)
        // Others are sent between its last send and its end.
        let other = try put("b", store, at: 150)
        while store.expire(seconds: 190) {}
        #expect(store.amount.fileCount == 2)
        while store.expire(seconds: 191) {}
        #expect(store.amount.fileCount == 1)
        #expect(content(of: first, store, seconds: 150) == nil)
        #expect(content(of: other, store, seconds: 150) == "b")
    }

    @Test func `sends of one file again and again are not remembered`() throws {
        let files = AppFiles()
        let name = StoredFileName(digest: String(repeating: "0", count: 64), ending: "png")
        for second in 0..<10_000 as Range<UInt64> {
            files.add(
                name, StoredFile(byteCount: 1, sentSeconds: second / 2, sender: nil))
            #expect(files.rememberedSendCount <= 2 + FileStoreLimits.sendsKeptMinimum)
        }
        var expired: [(name: StoredFileName, file: StoredFile)] = []
        while files.takeExpired(sentBefore: 4_999, into: &expired) {}
        #expect(expired.isEmpty && files.amount == AppFiles.Amount(fileCount: 1, byteCount: 1))
        while files.takeExpired(sentBefore: 5_000, into: &expired) {}
        #expect(expired.map(\.name) == [name] && files.amount == AppFiles.Amount())
    }

    // MARK: - Shares of users

    @Test func `a user has a share of the quota, and others have the rest`() throws {
        let store = try store(bytesPerApp: 10, userPercent: 50)
        _ = try put("aaaaa", store)
        let error = #expect(throws: FileStore.Refusal.self) { try put("b", store) }
        #expect({ if case .share? = error { true } else { false } }())
        // The same again takes nothing.
        _ = try put("aaaaa", store)
        _ = try put("b", store, from: "bob")
        _ = try put("c", store, app: "other")
        // What is too old makes room.
        _ = try put("ddddd", store, at: 101)
    }

    @Test func `a file is in the share of its last sender, also after a restart`() throws {
        let now: UInt64 = 10
        let name = try put("aaaaa", store(bytesPerApp: 10, userPercent: 50), at: now)
        let store = try self.store(bytesPerApp: 10, userPercent: 50)
        #expect(throws: FileStore.Refusal.self) { try put("b", store, at: now) }
        #expect(try put("aaaaa", store, from: "bob", at: now) == name)
        #expect(store.amount == AppFiles.Amount(fileCount: 1, byteCount: 5))
        #expect(try entries(FileStore.place(ofApp: "demo")).count == 1)
        #expect(throws: FileStore.Refusal.self) { try put("c", store, from: "bob", at: now) }
        // Who has no room cannot take it over.
        _ = try put("b", store, at: now)
        let error = #expect(throws: FileStore.Refusal.self) { try put("aaaaa", store, at: now) }
        #expect({ if case .share? = error { true } else { false } }())
        let later = try self.store(bytesPerApp: 10, userPercent: 50)
        #expect(content(of: name, later, seconds: now) == "aaaaa")
        #expect(throws: FileStore.Refusal.self) { try put("c", later, from: "bob", at: now) }
    }

    @Test func `files from before there were shares are in nobody's share`() throws {
        let now: UInt64 = 10
        let name = try put("aaaaa", store(), at: now)
        let place = FileStore.place(ofApp: "demo")
        let entry = try #require(entries(place).first)
        let folder = "\(files.path)/\(place)"
        #expect(rename("\(folder)/\(entry)", "\(folder)/\(name.text)") == 0)
        let store = try self.store(bytesPerApp: 10, userPercent: 50)
        #expect(content(of: name, store, seconds: now) == "aaaaa")
        _ = try put("bbbbb", store, at: now)
        #expect(throws: FileStore.Refusal.self) { try put("c", store, from: "bob", at: now) }
    }

    @Test func `a share is a part of the bytes and of the files of an app`() {
        func quota(_ bytes: Int, _ percent: Int) -> FileQuota {
            FileQuota(appBytes: bytes, userPercent: percent)
        }
        #expect(quota(10, 1).userFiles == 1_000 && quota(10, 1).userBytes == 0)
        #expect(quota(1_073_741_824, 10).userBytes == 107_374_182)
        let most = 35_184_372_088_832
        #expect(quota(most, 100).userBytes == most)
    }

    // MARK: - Apps that are deleted

    @Test func `files of an app that is removed are nowhere, and go in bounded steps`() throws {
        let store = try store()
        let count = FileStoreLimits.expiredPerStepMaximum + 1
        let names = try (0..<count).map { try put("\($0)", store) }
        let other = try put("other", store, app: "other")
        try store.remove(app: "demo")
        #expect(names.allSatisfy { content(of: $0, store) == nil })
        #expect(store.amount.fileCount == 1 && store.fileCount(ofApp: "demo") == 0)
        // An app that gets the name has files of its own.
        #expect(try put("0", store) == names[0])
        #expect(store.deleteRemoved() && store.removedCount < count)
        while store.deleteRemoved() {}
        #expect(store.removedCount == count)
        #expect(try entries().count == 3, "the key and two apps")
        #expect(content(of: names[0], store) == "0")
        #expect(content(of: other, store, app: "other") == "other")
    }

    @Test func `a removal that was interrupted goes on after a restart`() throws {
        let now: UInt64 = 10
        let store = try store()
        let name = try put("a", store, at: now)
        try store.remove(app: "demo")
        let later = try self.store()
        #expect(content(of: name, later, seconds: now) == nil)
        while later.deleteRemoved() {}
        #expect(try entries() == ["key"])
        // One of an app without files does nothing.
        try later.remove(app: "demo")
        #expect(!later.deleteRemoved() && later.removedCount == 1)
    }

    @Test func `a directory that cannot be written refuses`() throws {
        #expect(throws: StartError.self) {
            try FileStore(
                directory: "/proc/none", quota: FileQuota(appBytes: 1, userPercent: 100),
                ageSeconds: 1)
        }
        let store = try store()
        let folder = "\(files.path)/\(FileStore.place(ofApp: "demo"))"
        try Data().write(to: URL(filePath: folder))
        let error = #expect(throws: FileStore.Refusal.self) { try put("a", store) }
        #expect({ if case .disk? = error { true } else { false } }())
    }

    @Test(arguments: [
        "", ".png", "../key", "key", String(repeating: "0", count: 63) + ".png",
        String(repeating: "0", count: 64), String(repeating: "0", count: 64) + ".html",
        String(repeating: "A", count: 64) + ".png", String(repeating: "0", count: 64) + ".png.",
        String(repeating: "/", count: 64) + ".png", String(repeating: "é", count: 32) + ".png",
    ])
    func `what is no name of a file names none`(text: String) {
        #expect(StoredFileName(text) == nil)
    }

    @Test func `places lead back to their apps`() {
        for app in ["demo", "é", String(repeating: "x", count: 64)] {
            #expect(FileStore.app(ofPlace: FileStore.place(ofApp: app)) == app)
        }
        for place in ["", "6", "..", "6G", "ff", "../64", String(repeating: "61", count: 65)] {
            #expect(FileStore.app(ofPlace: place) == nil)
        }
    }

    @Test(arguments: [
        (nil, StoredFileRange.all), ("bytes=0-", .part(0..<10)), ("bytes=3-5", .part(3..<6)),
        ("bytes=3-99", .part(3..<10)), ("bytes=-3", .part(7..<10)), ("bytes=-99", .part(0..<10)),
        ("bytes=10-", .unsatisfiable), ("bytes=-0", .unsatisfiable), ("bytes=5-3", .all),
        ("bytes=-", .all), ("bytes=", .all), ("bytes=a-", .all), ("bytes=+1-2", .all),
        ("bytes=1-2,4-5", .all), ("bytes=99999999999999999999-", .all), ("x=1-2", .all),
    ])
    func `a range is a part of the file`(field: String?, range: StoredFileRange) {
        #expect(StoredFileRange(field, byteCount: 10) == range)
    }

    @Test func `an empty file has no part`() {
        #expect(StoredFileRange("bytes=0-", byteCount: 0) == .unsatisfiable)
        #expect(StoredFileRange("bytes=-1", byteCount: 0) == .unsatisfiable)
        #expect(StoredFileRange(nil, byteCount: 0) == .all)
    }
}
