// The memory of one client machine, which must outlive it.

import ClientCore
import WireFormat

final class MachineMemory {
    private let identity: UnsafeMutableRawBufferPointer
    private let receive: UnsafeMutableRawBufferPointer
    private let outbox: UnsafeMutableRawBufferPointer
    let transmit: UnsafeMutableRawBufferPointer

    /// - Parameter names: the bytes that the ranges of its CONNECT refer to.
    init(names: [UInt8], receiveCount: Int, outboxCount: Int, transmitCount: Int) {
        identity = .allocate(byteCount: names.count, alignment: 8)
        identity.copyBytes(from: names)
        receive = .allocate(byteCount: receiveCount, alignment: 8)
        outbox = .allocate(byteCount: outboxCount, alignment: 8)
        transmit = .allocate(byteCount: transmitCount, alignment: 8)
    }

    deinit {
        identity.deallocate()
        receive.deallocate()
        outbox.deallocate()
        transmit.deallocate()
    }

    var nameByteCount: Int { identity.count }
    var ofClient: ClientMemory { ClientMemory(receive: receive, outbox: outbox) }

    func identity(_ connect: MRT.Connect) -> ClientIdentity {
        ClientIdentity(connect: connect, bytes: UnsafeRawBufferPointer(identity))
    }
}
