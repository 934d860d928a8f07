// The codecs: a decoded packet that is encoded again decodes to the same values.

import PacketMeanings
import Primitives
import WireFormat

func fuzzFraming(_ bytes: UnsafeRawBufferPointer) {
    for packetMaximum in [64, 65_536, Int.max] {
        var offset = 0
        while case .packet(let frame) = PacketFrame.next(
            in: bytes.bytes, at: offset, packetMaximum: packetMaximum)
        {
            precondition(frame.endOffset > offset && frame.endOffset <= bytes.count)
            precondition(frame.byteCount <= packetMaximum)
            offset = frame.endOffset
        }
    }
    _ = try? ProtocolName.read(bytes.bytes)
}

/// The first byte chooses who speaks, and whether the rest is a packet or a part of one.
func fuzzMRT(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    let isFromClient = first & 1 == 0
    let content = Array(bytes.dropFirst())
    switch first >> 1 {
    case 0:
        expectStable(content) { understand($0, isFromClient: isFromClient) }
    case 126:
        expectStableFields(content, isFromClient: isFromClient)
    case 127:
        expectStable(content) { understandPart($0, of: "event", isFromClient: false) }
    case let operation:
        // The other operations' parts are read with their whole packets.
        guard let named = MRT.Operation(rawValue: operation),
            (isFromClient ? parametersOfTheirOwn : resultsOfTheirOwn).contains(named)
        else { return }
        let part = Substring(String(operation))
        expectStable(content) { understandPart($0, of: part, isFromClient: isFromClient) }
    }
}

private let resultsOfTheirOwn: Set<MRT.Operation> = [
    .groupCreate, .groupList, .groupDescribe, .history, .conversations, .groupHistory, .recall,
    .replace, .setWakeTarget, .listWakeTargets,
]
private let parametersOfTheirOwn: Set<MRT.Operation> = [
    .setWill, .groupCreate, .groupJoin, .groupLeave, .groupKick, .groupBan, .groupList,
    .groupDescribe, .groupSetMeta, .groupSetAllowList, .history, .conversations,
    .markRead, .hideHistory, .groupSetHistory, .groupHistory, .applied, .recall, .replace,
    .setWakeTarget, .listWakeTargets, .removeWakeTarget, .groupSetWake,
    .groupMute, .reportWakes,
]

/// The first byte chooses the version and who speaks.
func fuzzMQTT(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first, let version = MQTT.Version(rawValue: 3 + (first >> 1) % 3)
    else { return }
    expectStable(Array(bytes.dropFirst())) {
        understandMQTT($0, version, isFromClient: first & 1 == 0)
    }
}

/// A block of fields of a SEND or a DELIVER that is encoded again decodes to the same values.
private func expectStableFields(_ bytes: [UInt8], isFromClient: Bool) {
    let whole = ByteRange(offset: 0, count: bytes.count)
    if isFromClient {
        guard let fields = try? MRT.SendFields(whole, in: bytes.span.bytes), fields.fault == nil
        else { return }
        let block = fields.block(from: bytes.span.bytes)
        let again = try? MRT.SendFields(
            ByteRange(offset: 0, count: block.count), in: block.span.bytes)
        precondition(again?.block(from: block.span.bytes) == block, "\(fields) became \(block)")
    } else {
        guard let fields = try? MRT.DeliverFields(whole, in: bytes.span.bytes) else { return }
        let block = fields.block(from: bytes.span.bytes)
        let again = try? MRT.DeliverFields(
            ByteRange(offset: 0, count: block.count), in: block.span.bytes)
        precondition(again?.block(from: block.span.bytes) == block, "\(fields) became \(block)")
    }
}

private func expectStable(_ bytes: [UInt8], _ understand: ([UInt8]) -> Meaning) {
    let meaning = understand(bytes)
    if meaning.text.hasPrefix("error=") { return }
    let again = understand(meaning.encoded)
    precondition(again.text == meaning.text, "\(meaning.text) became \(again.text)")
    precondition(again.encoded == meaning.encoded, "\(meaning.text) has two spellings")
}

/// JSON in, binary, JSON out, binary again.
func fuzzText(_ bytes: UnsafeRawBufferPointer) {
    _ = TextBody.fault(bytes.bytes, messageMaximum: 1024)
    withUnsafeTemporaryAllocation(byteCount: bytes.count, alignment: 1) { binary in
        guard let count = TextBody.readJSON(bytes.bytes, into: binary) else { return }
        let payload = UnsafeRawBufferPointer(rebasing: binary[..<count])
        guard TextBody.fault(payload.bytes, messageMaximum: .max) == nil else { return }
        let jsonByteCount = TextBody.jsonByteCount(payload.bytes)
        precondition(jsonByteCount == TextBody.minimalJSONByteCount(payload.bytes))
        let json = PacketMeanings.bytes(count: jsonByteCount) {
            TextBody.writeJSON(payload.bytes, to: &$0)
        }
        json.withUnsafeBytes { json in
            withUnsafeTemporaryAllocation(byteCount: json.count, alignment: 1) { again in
                guard let read = TextBody.readJSON(json.bytes, into: again) else {
                    preconditionFailure("what was written cannot be read")
                }
                precondition(again[..<read].elementsEqual(payload), "another message came back")
            }
        }
    }
}
