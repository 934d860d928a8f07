// OpenSSL's allocator. The program must install it before anything else: OpenSSL refuses another
// allocator after its first allocation.
import COpenSSL
import CTLSMemory

/// Reuses the memory of TLS records, so that sending over TLS does not allocate.
public enum TLSMemory {
    /// Makes OpenSSL use it in this process, whose threads should live as long as it does.
    ///
    /// - Returns: false where OpenSSL has been used already, and goes on as it began.
    @discardableResult
    public static func install() -> Bool {
        CRYPTO_set_mem_functions(
            tls_memory_take, tls_memory_resize, tls_memory_give_back) == 1
    }
}
