// The notice of a new member in the words of JSON, for clients of JSON and of MQTT.

import BrokerCore
import Primitives
import WireFormat

enum GroupNoticeText {
    /// Writes the members that tell about the group.
    static func write(_ payload: RawSpan, to writer: inout JSONWriter) {
        guard case .added(let notice)? = try? MRT.GroupEvent(payload) else { return }
        writer.write("owner", notice.owner.bytes(in: payload))
        writer.write("title", notice.title.bytes(in: payload))
        if notice.isCut {
            writer.write("isCut", true)
        } else {
            writer.write("meta", notice.meta.bytes(in: payload))
        }
        writer.write("memberCount", UInt64(notice.memberCount))
    }
}
