// What can be an entry of web.allowedOrigins.

import Testing

@testable import Configuration

@Suite struct `Origins in a configuration` {
    @Test(arguments: [
        "*", "https://shop.example", "https://SHOP.example:8443", "http://localhost:3000",
        "http://127.0.0.1", "https://[2001:db8::1]", "https://[2001:db8::1]:8443",
        "https://shop.example:80", "http://shop.example:443", "capacitor://localhost",
        "https://xn--mnchen-3ya.example",
    ])
    func `are what browsers send`(origin: String) throws {
        try OriginForm.check(origin)
    }

    @Test(arguments: [
        ("shop.example", "scheme"), ("://shop.example", "scheme"), ("https://", "host is missing"),
        ("https://shop.example/", "without /"), ("https://shop.example/app", "without /"),
        ("https://shop.example?x", "without /"), ("https://*.shop.example", "no patterns"),
        ("https://shop.example:443", "leave out the port 443"),
        ("http://shop.example:80", "leave out the port 80"),
        ("https://shop.example:", "no number"), ("https://shop.example:0", "no number"),
        ("https://shop.example:65536", "no number"), ("https://shop.example:08443", "no number"),
        ("https://[2001:db8::1]:443", "leave out the port 443"),
        ("https://münchen.example", "xn--"), ("https://a b", "ASCII"),
        ("https://user@shop.example", "ASCII"), ("null", "frame"),
    ])
    func `that could never match are refused with the reason`(origin: String, reason: String) {
        let fault = #expect(throws: SettingFault.self) { try OriginForm.check(origin) }
        #expect(fault?.message.contains(reason) == true, "\(fault?.message ?? "")")
    }
}
