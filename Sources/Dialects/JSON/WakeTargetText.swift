// Wake targets in the words of JSON.

import BrokerCore
import Primitives
import WireFormat

enum WakeTargetText {
    /// Writes the targets of a user, in the form of MRT, as a list.
    static func write(_ entries: RawSpan, to writer: inout JSONWriter) {
        writer.write("targets") { (list: inout JSONList) in
            guard let targets = try? MRT.WakeTargetList(entries) else { return }
            targets.forEach(in: entries) { entry in
                list.append { object in
                    write(entry, in: entries, to: &object)
                }
            }
        }
    }

    private static func write(
        _ entry: MRT.WakeTargetEntry, in bytes: RawSpan, to writer: inout JSONWriter
    ) {
        let target = entry.target
        writer.write("id", entry.identifier)
        if !target.device.isEmpty { writer.write("device", target.device.bytes(in: bytes)) }
        writer.write("kind", WakeTarget.Kind(rawValue: target.kind)?.name ?? "unknown")
        writer.write("address", target.address.bytes(in: bytes))
        let environment = WakeTarget.Environment(rawValue: target.environment)
        writer.write("environment", environment?.name ?? "production")
        if !target.language.isEmpty {
            writer.write("language", target.language.bytes(in: bytes))
        }
    }
}
