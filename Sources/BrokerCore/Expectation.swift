// Checks of the core's invariants. A check that fails stops the program and prints the value that
// it found. Only tests, fuzzing and the simulation run these checks.

/// Stops unless a value is the expected one.
///
/// - Parameter subject: what has the value, for the message.
func expect<Value: Equatable>(
    _ found: Value, equals expected: Value, _ subject: @autoclosure () -> String
) {
    precondition(found == expected, "\(subject()): found \(found), expected \(expected)")
}

/// Stops if a value is above a maximum.
func expect<Value: Comparable>(
    _ found: Value, atMost maximum: Value, _ subject: @autoclosure () -> String
) {
    precondition(found <= maximum, "\(subject()): found \(found), expected at most \(maximum)")
}

/// Stops unless a value is above another.
func expect<Value: Comparable>(
    _ found: Value, above lower: Value, _ subject: @autoclosure () -> String
) {
    precondition(found > lower, "\(subject()): found \(found), expected more than \(lower)")
}
