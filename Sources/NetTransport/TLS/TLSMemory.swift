// Where OpenSSL gets its memory from. For the program to decide, before anything else: OpenSSL
// takes it once, and not any more when it has allocated something.
import COpenSSL
import CTLSMemory

/// Memory for records that is used again, so that sending over TLS allocates nothing.
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
