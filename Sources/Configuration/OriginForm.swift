// The form of an origin in `web.allowedOrigins`: what a browser can send (RFC 6454, 6.2). An entry
// of another form would never match, and nobody would be told.

enum OriginForm {
    /// - Throws: what is wrong, as a sentence without its subject.
    static func check(_ text: String) throws(SettingFault) {
        if text == "*" { return }
        func fault(_ reason: String) -> SettingFault {
            SettingFault("\(quoted(text)) is no origin of a page: \(reason)")
        }
        if text == "null" {
            throw fault("every page in a frame without an origin of its own sends it")
        }
        guard let mark = text.firstRange(of: "://"), mark.lowerBound > text.startIndex else {
            throw fault("the scheme is missing, as in https://shop.example")
        }
        let scheme = text[..<mark.lowerBound].lowercased()
        let host = text[mark.upperBound...]
        guard !host.isEmpty else { throw fault("the host is missing, as in https://shop.example") }
        guard !host.contains("*") else { throw fault("there are no patterns; name each host") }
        guard !host.contains(where: { "/?#".contains($0) }) else {
            throw fault("it ends with the host or port, without / and a path")
        }
        guard host.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), !host.contains("@") else {
            throw fault("a host has the letters of ASCII, as browsers write it (xn--…)")
        }
        guard let colon = host.lastIndex(of: ":"), !host[colon...].contains("]") else { return }
        let port = host[host.index(after: colon)...]
        guard let number = UInt16(port), number > 0, !port.hasPrefix("0"), !port.hasPrefix("+")
        else { throw fault("the port is no number from 1 to 65535") }
        let own: UInt16? = ["https": 443, "http": 80][scheme]
        guard number != own else {
            throw fault("browsers leave out the port \(number), which is that of \(scheme)")
        }
    }

    private static func quoted(_ text: String) -> String { "\"\(text)\"" }
}
