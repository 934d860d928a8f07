// What a gateway's log says about the broker, about devices that the broker refuses, and about
// lines with noise: the cause, and not the same line again and again.

import GatewayModel
import PacketMeanings
import Primitives
import Testing
import WireFormat

@testable import Gateway

@Suite("A gateway's log") struct GatewayLogTests {
    private let site = GatewaySite.ready(["plant7-a", "plant7-b/pump"])

    private func lines(_ event: String) -> [String] {
        site.log.filter { $0.hasPrefix("event=\(event) ") }
    }

    @Test func `names each cause of a failed connection once`() {
        site.loseUplink()
        for detail in ["refused", "refused", "certificate: expired", "refused"] {
            site.pass(milliseconds: 300_000)
            site.failUplink(detail)
        }
        #expect(
            lines("broker_lost") == [
                "event=broker_lost reason=connection-lost "
                    + "detail=\"the network broke the connection\""
            ])
        #expect(
            lines("broker_unreachable")
                == ["refused", "certificate: expired", "refused"].map {
                    "event=broker_unreachable server=tcp://127.0.0.1:2 detail=\"\($0)\""
                })
        site.pass(milliseconds: 300_000)
        site.openUplink()
        site.loseUplink()
        site.pass(milliseconds: 300_000)
        site.failUplink("refused")
        // After a login the same cause is news.
        #expect(lines("broker_lost").count == 2)
        #expect(lines("broker_unreachable").count == 4)
    }

    @Test func `names each server and its cause once`() {
        let site = GatewaySite(["plant7-a"], ports: [2, 3, 4])
        for _ in 0..<6 {
            switch site.machine.server.port {
            case 2: site.failUplink("refused")
            case 3:
                site.broker.loginRefusal = .serverBusy
                site.openUplink()
            default:
                // A standby that has not heard of its successor, and names itself.
                site.broker.loginRefusal = .useAnotherServer
                site.broker.loginRefusalText = "127.0.0.1:4"
                site.openUplink()
                site.broker.loginRefusalText = ""
            }
            if !site.isDialWanted { site.pass(milliseconds: 120_000) }
        }
        site.broker.loginRefusal = nil
        #expect(
            site.log.filter { !$0.contains("line_") } == [
                "event=broker_unreachable server=tcp://127.0.0.1:2 detail=\"refused\"",
                "event=broker_refused server=tcp://127.0.0.1:3 reason=server-busy code=137",
                "event=broker_refused server=tcp://127.0.0.1:4 reason=use-another-server "
                    + "code=156 named=\"127.0.0.1:4\"",
            ])
        let server = site.machine.server
        site.openUplink()
        #expect(site.log.last == "event=broker_connected server=\(server)")
    }

    @Test func `has the code of a refused login`() {
        site.loseUplink()
        site.broker.loginRefusal = .serverBusy
        for _ in 0..<3 {
            site.pass(milliseconds: 300_000)
            site.openUplink()
        }
        #expect(
            lines("broker_refused") == [
                "event=broker_refused server=tcp://127.0.0.1:2 reason=server-busy code=137"
            ])
        #expect(lines("broker_lost").count == 1)
        #expect(site.failure == nil)
        site.broker.loginRefusal = .badUserNameOrPassword
        site.pass(milliseconds: 300_000)
        site.openUplink()
        #expect(lines("broker_refused").count == 2)
        #expect(site.failure?.hasSuffix("bad-user-name-or-password (134)") == true)
    }

    @Test func `has no loss when the gateway is stopped`() {
        site.stop()
        #expect(lines("gateway_stopping").count == 1)
        #expect(lines("broker_lost").isEmpty && lines("broker_unreachable").isEmpty)
    }

    @Test func `names the right that the token needs for a line`() {
        var device = ModelDevice()
        let identity = ModelBroker.Identity(user: "plant7-b", device: "pump")
        site.broker.forbidden = [identity]
        for _ in 0..<3 { site.receive(device.login(), on: 1) }
        let line =
            "event=device_refused user=plant7-b device=pump line=tcp://127.0.0.1:1 "
            + "reason=not-authorized code=135 "
            + "detail=\"the gateway's token needs the right attach:plant7-b\""
        #expect(lines("device_refused") == [line])
        #expect(
            device.take(site.takeWritten(1)).last
                == encode(MRT.ConnectRefused(reason: .notAuthorized)))
        site.broker.forbidden = []
        site.receive(device.login(), on: 1)
        #expect(site.broker.logins == [identity])
        site.broker.forbidden = [identity]
        site.receive(device.login(), on: 1)
        #expect(lines("device_refused") == [line, line])
    }

    @Test func `names a device's own credential that the broker refuses`() throws {
        var device = ModelDevice()
        var connect = MRT.Connect()
        connect.credential = .token(ByteRange(offset: 0, count: 1))
        let open = device.open()
        site.receive(open + device.frames(connect, [9]), on: 0)
        let line = try #require(lines("device_refused").first)
        #expect(line.contains("reason=bad-user-name-or-password code=134"))
        #expect(line.contains("the device's own credential"))
    }

    @Test func `counts bytes that are no frame, at most once a minute`() {
        let noise = [UInt8](repeating: 0xF3, count: 99) + [0]
        site.receive(noise, on: 0)
        for _ in 0..<10 {
            site.pass(milliseconds: 5_000)
            site.receive(noise, on: 0)
        }
        let hint = "detail=\"bytes that are no frame: check the baud rate and the wires\""
        let start = "event=line_noise user=plant7-a line=tcp://127.0.0.1:1"
        #expect(lines("line_noise") == ["\(start) bytes=99 \(hint)"])
        site.pass(milliseconds: 10_000)
        // Without the end of a frame, too.
        site.receive([UInt8](repeating: 0x55, count: 200), on: 0)
        #expect(lines("line_noise").count == 2)
        #expect(lines("line_noise").last == "\(start) bytes=1190 \(hint)")
        #expect(lines("line_broken").isEmpty)
        var device = ModelDevice()
        site.receive([0] + device.login(), on: 0)
        #expect(site.broker.isConnected(ModelBroker.Identity(user: "plant7-a")))
        #expect(lines("line_noise").count == 2)
    }
}
