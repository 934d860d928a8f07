// The memory of one client's machine: allocated with the client, freed with it.

import ClientCore

/// The buffers of one client's machine, which exist as long as it does.
final class ClientMemories {
    let memory: ClientMemory
    let identity: ClientIdentity
    /// The buffer that the machine writes its bytes into.
    let transmit: UnsafeMutableRawBufferPointer
    private let credentials: UnsafeMutableRawBufferPointer

    /// Large blocks come from the system, and use memory only as far as they are used.
    init(_ settings: ClientSettings) {
        func allocate(_ byteCount: Int) -> UnsafeMutableRawBufferPointer {
            .allocate(byteCount: byteCount, alignment: 8)
        }
        memory = ClientMemory(
            receive: allocate(settings.packetMaximum), outbox: allocate(settings.outboxByteCount))
        transmit = allocate(ClientBounds.transmitByteCount)
        let (connect, servers, bytes) = settings.connect()
        credentials = allocate(bytes.count)
        credentials.copyBytes(from: bytes)
        identity = ClientIdentity(
            connect: connect, servers: servers, bytes: UnsafeRawBufferPointer(credentials))
    }

    deinit {
        memory.receive.deallocate()
        memory.outbox.deallocate()
        transmit.deallocate()
        // The credential must not remain in free memory.
        credentials.initializeMemory(as: UInt8.self, repeating: 0)
        credentials.deallocate()
    }
}
