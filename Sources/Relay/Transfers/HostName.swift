// One name for each host, however a URL or an address of a user writes it.

import BrokerTerms
import Glibc

package enum HostName {
    /// A name in small letters without a dot at its end; an address in its usual form.
    ///
    /// - Parameter host: without a port and without brackets. Addresses of IPv4 may have each form
    ///   that libcurl takes: `127.1`, `0x7f000001`.
    package static func normal(_ host: some StringProtocol) -> String {
        if let address = IPAddress(host.utf8) { return address.description }
        var number = in_addr()
        if inet_aton(String(host), &number) == 1 {
            return IPAddress(version4: UInt32(bigEndian: number.s_addr)).description
        }
        var name = host.lowercased()
        while name.last == "." { name.removeLast() }
        return name
    }
}
