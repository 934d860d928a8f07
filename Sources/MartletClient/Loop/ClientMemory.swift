// The memory of one client's machine: allocated with the client, freed with it.

import ClientCore

/// The buffers of one client's machine, which exist as long as it does.
final class ClientMemories {
    let memory: ClientMemory
    let identity: ClientIdentity
    let servers: ServerList
    /// The buffer that the machine writes its bytes into.
    let transmit: UnsafeMutableRawBufferPointer
    private let credentials: UnsafeMutableRawBufferPointer
    private let serverNames: UnsafeMutableRawBufferPointer

    /// Large blocks come from the system, and use memory only as far as they are used.
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
        let names = ServerAddress.names(settings.servers)
        serverNames = allocate(names.count)
        serverNames.copyBytes(from: names)
        servers = ServerList(names: UnsafeRawBufferPointer(serverNames))
    }

    deinit {
        memory.receive.deallocate()
        memory.outbox.deallocate()
        transmit.deallocate()
        serverNames.deallocate()
        // The credential must not remain in free memory.
        credentials.initializeMemory(as: UInt8.self, repeating: 0)
        credentials.deallocate()
    }
}
