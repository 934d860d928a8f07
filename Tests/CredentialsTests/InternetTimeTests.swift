// Times and base64url, whose strict parsing the tokens rely on.
import Testing

@testable import Credentials

@Suite struct InternetTimeTests {
    static let good: [(text: String, unixSeconds: Int64)] = [
        ("1970-01-01T00:00:00Z", 0), ("2016-03-22T08:00:00Z", 1_458_633_600),
        ("2016-03-22t08:00:00z", 1_458_633_600), ("2016-03-22T08:00:00.999Z", 1_458_633_600),
        ("2016-03-22T16:00:00+08:00", 1_458_633_600), ("2016-03-22T03:30:00-0430", 1_458_633_600),
        ("2000-02-29T23:59:60Z", 951_868_800), ("2100-03-01T00:00:00Z", 4_107_542_400),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ]

    @Test(arguments: good) func `a time is parsed`(text: String, unixSeconds: Int64) {
        #expect(InternetTime.unixSeconds(text) == unixSeconds)
    }

    static let bad = [
        "", "2016-03-22", "2016-03-22T08:00:00", "2016-03-22 08:00:00Z", "2016-3-22T08:00:00Z",
        "2016-02-30T00:00:00Z", "2100-02-29T00:00:00Z", "2016-13-01T00:00:00Z",
        "2016-00-01T00:00:00Z", "2016-01-00T00:00:00Z", "2016-01-01T24:00:00Z",
        "2016-01-01T00:60:00Z", "2016-01-01T00:00:61Z", "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00", "2016-01-01T00:00:00+24:00", "2016-01-01T00:00:00.Z",
        "2016-01-01T00:00:00ZZ", "２016-01-01T00:00:00Z", "9999-12-31T23:59:59-00:01",
    ]

    @Test(arguments: bad) func `an invalid time is refused`(text: String) {
        #expect(InternetTime.unixSeconds(text) == nil)
    }
}

@Suite struct Base64URLTests {
    @Test func `the vectors of the standard are read without padding`() {
        let vectors = [
            ("", ""), ("Zg", "f"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9vYg", "foob"),
            ("Zm9vYmE", "fooba"), ("Zm9vYmFy", "foobar"),
        ]
        for (text, meaning) in vectors {
            #expect(Base64URL.decode(text.utf8) == Array(meaning.utf8))
        }
        #expect(Base64URL.decode("-_-_".utf8) == [0xFB, 0xFF, 0xBF])
    }

    @Test func `there is one text for each value`() {
        for wrong in ["Zg==", "Zh", "Zm9", "Z", "Zm9vY", "Zm 8", "Zm9v\n", "+/+/", "Zm9é"] {
            #expect(Base64URL.decode(wrong.utf8) == nil, "\(wrong)")
        }
    }
}
