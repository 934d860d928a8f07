// The memory of one client's machine: made with the client, freed with it.

import ClientCore

/// The buffers of one client's machine, which live as long as it does.
final class ClientMemories {
    let memory: ClientMemory
    let identity: ClientIdentity
    /// Where the machine writes what is to be sent.
    let transmit: UnsafeMutableRawBufferPointer
    private let credentials: UnsafeMutableRawBufferPointer

    /// Large blocks come from the system untouched, and cost memory only as far as they are used.
    init(_ settings: ClientSettings) {
        func allocate(_ byteCount: Int) -> UnsafeMutableRawBufferPointer {
            .allocate(byteCount: byteCount, alignment: 8)
        }
        memory = ClientMemory(
            receive: allocate(settings.packetMaximum), outbox: allocate(settings.outboxByteCount))
        transmit = allocate(ClientBounds.transmitByteCount)
        let (connect, bytes) = settings.connect()
        credentials = allocate(bytes.count)
        credentials.copyBytes(from: bytes)
        identity = ClientIdentity(connect: connect, bytes: UnsafeRawBufferPointer(credentials))
    }

    deinit {
        memory.receive.deallocate()
        memory.outbox.deallocate()
        transmit.deallocate()
        // The credential does not stay behind in free memory.
        credentials.initializeMemory(as: UInt8.self, repeating: 0)
        credentials.deallocate()
    }
}
