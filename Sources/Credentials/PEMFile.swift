// Keys and certificates as PEM text in files. A file is either there with its whole content or not
// there: it is written beside its place and renamed, so a crash leaves no half of a key.
import COpenSSL
import Glibc

enum PEMFile {
    /// Larger than any chain of certificates; a wrong path must not fill the memory.
    static let byteCountMaximum = 1 << 20

    /// The bytes of a file; nil where there is none.
    static func read(
        _ path: String, byteCountMaximum: Int = byteCountMaximum
    ) throws(CredentialError) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 {
            if errno == ENOENT { return nil }
            throw .file(call: "open", path: path, code: errno)
        }
        defer { close(descriptor) }
        return try read(descriptor: descriptor, path, byteCountMaximum: byteCountMaximum)
    }

    /// The bytes of an open file.
    static func read(
        descriptor: Int32, _ path: String, byteCountMaximum: Int = byteCountMaximum
    ) throws(CredentialError) -> [UInt8] {
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw .file(call: "read", path: path, code: errno) }
            if count == 0 { return content }
            content += chunk[..<count]
            if content.count > byteCountMaximum {
                throw .unusable(path: path, reason: "larger than \(byteCountMaximum) bytes")
            }
        }
    }

    /// Puts `content` at `path` with these permissions, replacing what was there.
    static func write(
        _ content: [UInt8], to path: String, permissions: mode_t
    ) throws(CredentialError) {
        let staged = path + ".new"
        unlink(staged)
        let descriptor = open(
            staged, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, permissions)
        if descriptor < 0 { throw .file(call: "open", path: staged, code: errno) }
        defer { close(descriptor) }
        // Whatever the mask of the process takes away or leaves.
        if fchmod(descriptor, permissions) != 0 {
            throw .file(call: "fchmod", path: staged, code: errno)
        }
        var written = 0
        while written < content.count {
            let count = content[written...].withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw .file(call: "write", path: staged, code: errno) }
            written += count
        }
        if fsync(descriptor) != 0 { throw .file(call: "fsync", path: staged, code: errno) }
        if rename(staged, path) != 0 { throw .file(call: "rename", path: path, code: errno) }
    }

    /// What `body` writes into a memory stream.
    static func text(
        _ call: String, _ body: (OpaquePointer) -> Int32
    ) throws(CredentialError) -> [UInt8] {
        guard let stream = BIO_new(BIO_s_mem()) else { throw .openSSL("BIO_new") }
        defer { BIO_free(stream) }
        guard body(stream) == 1 else { throw .openSSL(call) }
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = BIO_read(stream, &chunk, Int32(chunk.count))
            if count <= 0 { return content }
            content += chunk[..<Int(count)]
        }
    }

    /// Lets `body` read `content` as a stream.
    static func reading<Result>(_ content: [UInt8], _ body: (OpaquePointer) -> Result?) -> Result? {
        content.withUnsafeBytes { bytes in
            guard let stream = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else {
                return nil
            }
            defer { BIO_free(stream) }
            let result = body(stream)
            // A file that holds something else is an answer, not an error to be told later.
            ERR_clear_error()
            return result
        }
    }
}
