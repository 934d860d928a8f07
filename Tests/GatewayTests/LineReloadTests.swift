// Other lines for a running gateway: what devices of lines that stay, go and come notice, and what
// the log says.

import GatewayModel
import MartletClient
import PacketMeanings
import Primitives
import Testing
import WireFormat

@testable import Gateway

@Suite("A gateway whose lines change") struct LineReloadTests {
    private let site = GatewaySite.ready(["plant7-a", "plant7-b"])

    private func identity(_ user: String) -> ModelBroker.Identity {
        ModelBroker.Identity(user: user, device: "")
    }

    private func login(_ device: inout ModelDevice, _ index: Int) throws {
        site.receive(device.login(), on: index)
        let packets = device.take(site.takeWritten(index))
        try #require(packets.last?.first == MRT.PacketType.connack.rawValue << 4)
    }

    private func isAlive(_ device: inout ModelDevice, _ index: Int) -> Bool {
        _ = site.takeWritten(index)
        site.receive(device.frames(MRT.Ping(isResponse: false)), on: index)
        return device.take(site.takeWritten(index)) == [encode(MRT.Ping(isResponse: true))]
    }

    private func lines(_ event: String) -> [String] {
        site.log.filter { $0.hasPrefix("event=\(event) ") }
    }

    @Test func `a line that stays is not touched, one that goes loses its device`() throws {
        var (stays, goes, comes) = (ModelDevice(), ModelDevice(), ModelDevice())
        try login(&goes, 0)
        try login(&stays, 1)
        site.setLines(["plant7-b", "plant7-c"])
        #expect(lines("reloaded") == ["event=reloaded lines=2 added=1 removed=1"])
        _ = goes.take(site.takeWritten(0))
        #expect(goes.kinds.last == .close)
        #expect(site.broker.losses == [identity("plant7-a")])
        #expect(isAlive(&stays, 1))
        site.openLine(2)
        try login(&comes, 2)
        #expect(site.broker.logins.last == identity("plant7-c"))
        #expect(site.broker.channelCount == 2)
    }

    @Test func `the place of a line that went is used again`() throws {
        for round in 0..<50 {
            var device = ModelDevice()
            site.setLines(["plant7-b", "plant7-r\(round)"])
            #expect(site.machine.lines.count <= 3)
            let index = try #require(
                site.machine.lines.indices.first {
                    !site.machine.lines[$0].isRemoved
                        && site.machine.lines[$0].settings.user == "plant7-r\(round)"
                })
            site.openLine(index)
            try login(&device, index)
            #expect(site.broker.isConnected(identity("plant7-r\(round)")))
        }
        #expect(site.broker.channelCount == 1)
    }

    @Test func `what still arrives from a line that went is not answered`() throws {
        var device = ModelDevice()
        try login(&device, 1)
        site.setLines(["plant7-a"])
        let late = device.frames(MRT.Ping(isResponse: false))
        late.withUnsafeBytes { site.machine.lineReceived($0, 1, now: site.now) }
        site.turn()
        site.machine.checkInvariants()
        site.machine.logTotals()
        site.turn()
        let line = try #require(lines("totals").last)
        #expect(line.hasSuffix(" waiting_bytes=0"), "\(line)")
    }

    @Test func `lines that cannot be used leave the present ones`() throws {
        var device = ModelDevice()
        try login(&device, 0)
        site.setLines(["plant7-b", "plant7-b"])
        site.setLines((0...GatewayLimits.linesMaximum).map { "plant8-\($0)" })
        site.machine.keepLines(because: "a \"file\"\nis missing")
        site.turn()
        #expect(lines("reload_failed").count == 3)
        #expect(site.log.last == "event=reload_failed detail=\"a 'file' is missing\"")
        #expect(lines("reloaded").isEmpty)
        #expect(isAlive(&device, 0))
    }

    @Test func `lines are opened again after the broker was away`() throws {
        site.loseUplink()
        site.setLines(["plant7-b"])
        site.pass(milliseconds: 300_000)
        site.openUplink()
        var device = ModelDevice()
        try login(&device, 1)
        #expect(isAlive(&device, 1))
        #expect(site.broker.channelCount == 1)
    }

    @Test func `totals count devices, packets and faults`() throws {
        var (good, bad) = (ModelDevice(), ModelDevice())
        try login(&good, 0)
        #expect(isAlive(&good, 0))
        try login(&bad, 1)
        site.receive(bad.frames([0xA0, 0x04, 0x01, 0xC0, 0x00, 0x00]), on: 1)
        site.machine.logTotals()
        site.turn()
        let line = try #require(lines("totals").last)
        for count in [
            "broker_logins=1", "device_logins=2", "faulty=1", "lines=2", "open_lines=2",
            "devices=1", "to_broker=3", "to_devices=3", "waiting_bytes=0",
        ] {
            #expect(line.split(separator: " ").contains(count[...]), "\(count): \(line)")
        }
    }

    @Test func `a file that may be half written is not taken again`() throws {
        for text in ["", "dev-1=tcp://127.0.0.1:27301\ndev-2=tcp://127.0.0.1:2730"] {
            #expect(throws: LineFile.Fault.self) {
                try LineFile.requireComplete(Array(text.utf8), path: "f")
            }
        }
        try LineFile.requireComplete(Array("# none\n".utf8), path: "f")
    }

    @Test func `a file has a line in each of its lines`() throws {
        let text = "# plant 7\n\n plant7-1=/dev/ttyUSB0@57600 \r\nplant7-2/pump=tcp://10.0.0.7:7001"
        #expect(
            try LineFile.lines(text: Array(text.utf8), path: "f") == [
                LineSettings("plant7-1=/dev/ttyUSB0@57600")!,
                LineSettings("plant7-2/pump=tcp://10.0.0.7:7001")!,
            ])
        #expect(try LineFile.lines(text: [], path: "f").isEmpty)
        #expect(
            try LineFile.lines(text: [0xEF, 0xBB, 0xBF] + Array("dev-1=/dev/a\n".utf8), path: "f")
                == [LineSettings("dev-1=/dev/a")!])
        for bad in ["plant7-1", "=x", "a=b", "a=/dev/x@7", "\u{FF}"] {
            let fault = #expect(throws: LineFile.Fault.self) {
                try LineFile.lines(text: Array("# x\n\(bad)".utf8), path: "f")
            }
            #expect(fault?.description.hasPrefix("f:2: ") == true)
        }
        #expect(throws: LineFile.Fault.self) {
            try LineFile.lines(text: [0xFF, 0x3D, 0x2F], path: "f")
        }
    }
}
