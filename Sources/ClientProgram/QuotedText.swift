// Untrusted text in lines of a log.

/// Bytes of such a text in a line of the log: enough for a topic that people write.
private let loggedByteCountMaximum = 200

/// Untrusted text in quotes, so that it can end neither a line of the log nor a value.
package func quoted(_ bytes: some Collection<UInt8>) -> String {
    let shown = String(decoding: bytes.prefix(loggedByteCountMaximum), as: UTF8.self)
    var text = "\""
    for scalar in shown.unicodeScalars {
        switch scalar {
        case "\"", "\\": text += "\\\(scalar)"
        case _ where scalar.value < 0x20 || scalar.value == 0x7F: text += "?"
        default: text.unicodeScalars.append(scalar)
        }
    }
    return text + "\""
}
