// What the broker says of texts that are to be rights, also for programs that do not contain it.

import BrokerCore

public enum RightsCheck {
    /// Why the broker refuses these rights; nil if it takes them.
    public static func fault(of rights: [String]) -> String? {
        do throws(RightsError) {
            _ = try Rights(rights.map { Array($0.utf8) })
            return nil
        } catch {
            return "\(error)"
        }
    }
}

extension RightsError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .tooLarge:
            "at most \(Rights.countMaximum) rights of \(Rights.textByteCountMaximum) bytes"
        case .unknownKind(let text):
            "\"\(String(decoding: text, as: UTF8.self))\" is not a right; rights are send:PATTERN, "
                + "publish:FILTER, subscribe:FILTER, presence:PATTERN, receipts:PATTERN, "
                + "attach:PATTERN, wake:PATTERN, group:create and broadcast; ! before one "
                + "denies it"
        case .malformedPattern(let text):
            "\"\(String(decoding: text, as: UTF8.self))\": + and # are whole levels, # for the "
                + "last; %u is the user, %d the device, %% a percent sign"
        }
    }
}
