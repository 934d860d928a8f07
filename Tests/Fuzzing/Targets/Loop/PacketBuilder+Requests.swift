// Requests of MQTT clients for fuzzing a loop: publications on `$api/` with JSON, usually valid.

extension PacketBuilder {
    /// Operations with their members; `USER` and `GROUP` are replaced.
    private static let requests: [(operation: String, members: String)] = [
        ("presence", #""user":"USER""#), ("setWill", #""users":["USER"],"b":"gone""#),
        ("setWill", #""topic":"a/b","base64":"/wA=","delaySeconds":1"#), ("clearWill", ""),
        ("createGroup", #""key":"0123456789abcdef","title":"title","allowed":["USER"]"#),
        ("joinGroup", #""group":"GROUP""#), ("leaveGroup", #""group":"GROUP""#),
        ("kickMember", #""group":"GROUP","user":"USER""#),
        ("banMember", #""group":"GROUP","user":"USER""#), ("listGroups", ""),
        ("describeGroup", #""group":"GROUP","after":"USER""#), ("history", #""user":"USER""#),
        ("history", #""group":"GROUP","count":2,"before":9"#), ("conversations", #""count":1"#),
        ("read", #""user":"USER","number":1"#), ("hide", #""group":"GROUP","number":1"#),
        ("setGroupHistory", #""group":"GROUP","history":true,"shown":2"#),
        ("groupHistory", #""group":"GROUP""#), ("setGroupMeta", #""group":"GROUP","meta":"m""#),
        ("setGroupAllowed", #""group":"GROUP","allowed":["USER",""]"#), ("reply", ""),
        ("send", #""users":["USER"],"b":"x""#), ("", #""a":{"b":{"c":{"d":1}}}"#),
    ]

    /// A request of MQTT; rarely with a member that does not exist, or cut off.
    func publishRequest(_ input: inout InputReader) -> [UInt8] {
        let (operation, choice, form) = (input.readByte(), input.readByte(), input.readByte())
        let request = Self.requests[Int(operation) % Self.requests.count]
        var members = Array((form & 1 == 0 ? "{" : #"{"request":7,"#).utf8)
        var rest = Array(request.members.utf8)
        rest = replace("USER", in: rest, with: FuzzWords.users[Int(choice) & 7])
        members += replace("GROUP", in: rest, with: group(choice) ?? Array("none".utf8))
        if members.last == UInt8(ascii: ",") { members += #""type":null"#.utf8 }
        members += "}".utf8
        if form & 0x0E == 0x0E { members.removeLast(min(members.count, Int(choice))) }
        let qos = min(form >> 4 & 3, 2)
        return PacketBytes.packet(0x30 | qos << 1) { body in
            let usesAlias = isFive && form & 0xC0 == 0xC0
            body.string16(
                usesAlias && choice & 0x40 != 0 ? [] : Array("$api/\(request.operation)".utf8))
            if qos > 0 { body.uint16(Int(choice >> 4 & 3) + 1) }
            if isFive {
                body.properties { section in
                    if usesAlias { section.raw([0x23, 0x00, choice & 3]) }
                    if form & 0x40 != 0 {
                        section.byte(0x08)
                        section.string16(FuzzWords.topics[Int(choice) % FuzzWords.topics.count])
                    }
                    if form & 0x80 != 0 {
                        section.byte(0x09)
                        section.string16([UInt8](repeating: choice, count: Int(choice)))
                    }
                }
            }
            body.raw(members)
        }
    }

    private func replace(_ word: String, in text: [UInt8], with name: [UInt8]) -> [UInt8] {
        let word = Array(word.utf8)
        var result: [UInt8] = []
        var offset = 0
        while offset < text.count {
            if text[offset...].starts(with: word) {
                result += name
                offset += word.count
            } else {
                result.append(text[offset])
                offset += 1
            }
        }
        return result
    }
}
