// Messages in memory: each is held once, whatever the number of windows that refer to it, and is
// released with its last reference.

import Primitives

/// The messages in memory, and the blocks that hold their bytes.
struct MessageMemory: ~Copyable {
    var messages = Slab<Message>(minimumCapacity: 64)
    /// Memory of released messages, for the next ones.
    var blocks = BlockPool(byteCountMaximum: CoreLimits.spareBytesMaximum)
    /// Bytes of the messages that the queues of sessions in memory hold, each message once.
    var memoryQueueByteCount = 0
    /// Messages in memory that are in the store, by their stored id: a body that a thousand
    /// sessions load is in memory once.
    var residentMessages: [UInt64: Index<Message>] = [:]
}
