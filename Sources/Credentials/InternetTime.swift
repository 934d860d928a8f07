// Times as ISO 8601 texts of the kind that RFC 3339 allows: `2016-03-22T08:00:00Z`, with fractions
// of a second and with an offset. Foundation's parser takes one fixed layout; senders use them all.

enum InternetTime {
    /// The end of the year 9999.
    static let unixSecondsMaximum: Int64 = 253_402_300_799

    /// Unix seconds of a text, fractions cut off; nil for anything but a date, a time and a zone,
    /// and for days that do not exist and years before 1970.
    static func unixSeconds(_ text: String) -> Int64? {
        let layout =
            #/
            ([0-9]{4})-([0-9]{2})-([0-9]{2})
            [Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,][0-9]{1,9})?
            (?:[Zz]|([+\-])([0-9]{2}):?([0-9]{2}))
            /#
        guard text.utf8.count <= 64, let match = text.wholeMatch(of: layout)?.output,
            let year = Int64(match.1), let month = Int64(match.2), let day = Int64(match.3),
            let hour = Int64(match.4), let minute = Int64(match.5), let second = Int64(match.6),
            let days = days(year: year, month: month, day: day),
            // 60 is a leap second, which Unix time counts as the next second.
            hour < 24, minute < 60, second <= 60
        else { return nil }
        let offsetHours = match.8.flatMap { Int64($0) } ?? 0
        let offsetMinutes = match.9.flatMap { Int64($0) } ?? 0
        guard offsetHours < 24, offsetMinutes < 60 else { return nil }
        let offset = (offsetHours * 3600 + offsetMinutes * 60) * (match.7 == "-" ? -1 : 1)
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset
        return (0...unixSecondsMaximum).contains(seconds) ? seconds : nil
    }

    /// Days since 1970-01-01; nil for a date that is not in the calendar.
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64? {
        let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths: [Int64] = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard year >= 1970, (1...12).contains(month), (1...lengths[Int(month) - 1]).contains(day)
        else { return nil }
        let before = year - 1
        let leapDays = before / 4 - before / 100 + before / 400
        // 719,162 days from 0001-01-01 to 1970-01-01.
        let newYear = before * 365 + leapDays - 719_162
        return newYear + lengths[..<(Int(month) - 1)].reduce(0, +) + day - 1
    }
}
