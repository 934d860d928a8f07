// A sensor: publishes readings on `plant/boiler/temperature`, and sets a will that the broker
// publishes if the sensor is lost.
//
//     sensor [READINGS]      the number of readings, one a second; 10 by default

import Foundation
import MartletClient
import Shared

let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 10
do {
    let client = try await connect(device: "sensor")
    try await client.setWill(
        to: .topic("plant/boiler/state"), .text("lost"), delaySeconds: 30)
    for reading in 1...max(count, 1) {
        let degrees = 80 + 5 * sin(Double(reading) / 10)
        // Durable: the call returns when every subscriber has the reading or the broker has stored
        // it. A reading that is an hour old is of no use, so it expires.
        var message = OutgoingMessage(
            to: .topic("plant/boiler/temperature"),
            text: String(format: "%.2f", degrees))
        message.expirySeconds = 3_600
        try await client.send(message)
        report("sent reading \(reading)")
        if reading < count { try await Task.sleep(for: .seconds(1)) }
    }
    // An orderly close removes the will.
    await client.close()
} catch {
    fail(error)
}
