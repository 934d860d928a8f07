// Commands about the broker itself: `martlet listeners`.

import Administration
import CommandLineOptions

enum ListenersOption: String, AdministrationRules {
    case data, server, ca, token, json

    var shape: OptionShape { self == .json ? .flag : .value }
}

/// `martlet listeners`
enum ListenersCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<ListenersOption>.options(arguments)
        let broker = try options.administration()
        let listeners = try broker.send(ListListeners()).listeners
        if options.has(.json) {
            for one in listeners { StandardStream.output.print(jsonLine(one)) }
            return
        }
        var table = TextTable("LISTENER", "SERVES", "CONNECTIONS", "CERTIFICATE", "DAYS LEFT")
        for one in listeners {
            table.add([
                "\(one.scheme)://\(one.address)", one.parts.joined(separator: ","),
                "\(one.connectionCount)", one.certificateSubject ?? "",
                one.certificateDays.map { "\($0)" } ?? "",
            ])
        }
        _ = table.printPage()
    }
}
