// OpenSSL's allocator. The program must install it before anything else: OpenSSL refuses another
// allocator after its first allocation.
import COpenSSL
import CTLSMemory

/// Reuses the memory of TLS records, so that sending over TLS does not allocate.
public enum TLSMemory {
    /// Makes OpenSSL use it in this process, whose threads should exist as long as the process.
    ///
    /// - Returns: false if OpenSSL has allocated before, and keeps its allocator.
    @discardableResult
    public static func install() -> Bool {
        CRYPTO_set_mem_functions(
            tls_memory_take, tls_memory_resize, tls_memory_give_back) == 1
    }
}
