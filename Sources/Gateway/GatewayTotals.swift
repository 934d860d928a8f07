// The counters of a gateway since its start.

struct GatewayTotals: Hashable {
    /// Logins of the gateway at the broker.
    var brokerLogins: UInt64 = 0
    /// Logins of devices that the broker accepted, and that it refused.
    var deviceLogins: UInt64 = 0
    var devicesRefused: UInt64 = 0
    /// Packets of devices for the broker, and of the broker for devices.
    var toBroker: UInt64 = 0
    var toDevices: UInt64 = 0
    /// Transient deliveries, and connections, that were lost because a device does not read.
    var deliveriesLost: UInt64 = 0
    var connectionsLost: UInt64 = 0
    /// Devices that sent a packet that is not allowed, and devices that were silent.
    var faulty: UInt64 = 0
    var silent: UInt64 = 0
    /// Damaged or missing frames, and bytes that were no frame.
    var broken: UInt64 = 0
    var noiseBytes: UInt64 = 0
    /// Attempts to open a line that failed.
    var unavailable: UInt64 = 0
    /// At present: lines, lines that are open, devices that are connected, and bytes that wait for
    /// devices.
    var lines: UInt64 = 0
    var openLines: UInt64 = 0
    var devices: UInt64 = 0
    var waitingBytes: UInt64 = 0

    var line: String {
        "broker_logins=\(brokerLogins) device_logins=\(deviceLogins) "
            + "devices_refused=\(devicesRefused) to_broker=\(toBroker) to_devices=\(toDevices) "
            + "deliveries_lost=\(deliveriesLost) connections_lost=\(connectionsLost) "
            + "faulty=\(faulty) silent=\(silent) broken=\(broken) noise_bytes=\(noiseBytes) "
            + "unavailable=\(unavailable) lines=\(lines) open_lines=\(openLines) "
            + "devices=\(devices) waiting_bytes=\(waitingBytes)"
    }
}
