// Files and directories that no other user may read or write: the files of `--dev` contain keys and
// tokens. A user who can write in a directory can replace its files, so the directory is checked
// before anything is read or written there.
import Glibc

/// A directory that belongs to this process's user, in which nobody else can write.
public enum PrivateDirectory {
    /// Makes the directory (0700, where it is missing), and throws unless it is private.
    public static func ensure(_ path: String) throws(CredentialError) {
        if mkdir(path, 0o700) != 0, errno != EEXIST {
            throw .file(call: "mkdir", path: path, code: errno)
        }
        var link = stat()
        guard lstat(path, &link) == 0 else { throw .file(call: "lstat", path: path, code: errno) }
        var information = stat()
        guard stat(path, &information) == 0 else {
            throw .file(call: "stat", path: path, code: errno)
        }
        guard information.st_mode & S_IFMT == S_IFDIR else {
            throw .unusable(path: path, reason: "not a directory")
        }
        // Another user's link leads where that user wants.
        guard information.st_uid == geteuid(), link.st_uid == geteuid() else {
            throw .unusable(
                path: path,
                reason: "another user owns it, and could read or exchange what is written there")
        }
        guard information.st_mode & 0o022 == 0 else {
            throw .unusable(
                path: path,
                reason: "others may write in it; take that away with: chmod go-w \(path)")
        }
    }
}

extension PrivateDirectory {
    /// Makes the names in a directory durable. Without it a loss of power may bring a replaced file
    /// back.
    public static func sync(_ path: String) throws(CredentialError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .file(call: "open", path: path, code: errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .file(call: "fsync", path: path, code: errno) }
    }
}

/// A file that only its owner, who is this process's user, may read.
public enum PrivateFile {
    /// The bytes of a file; nil where there is none. A symbolic link is not followed.
    public static func read(_ path: String) throws(CredentialError) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        if descriptor < 0 {
            switch errno {
            case ENOENT: return nil
            case ELOOP: throw .unusable(path: path, reason: "it is a symbolic link")
            default: throw .file(call: "open", path: path, code: errno)
            }
        }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else {
            throw .file(call: "fstat", path: path, code: errno)
        }
        guard information.st_mode & S_IFMT == S_IFREG else {
            throw .unusable(path: path, reason: "not a regular file")
        }
        guard information.st_uid == geteuid() else {
            throw .unusable(path: path, reason: "another user owns it")
        }
        guard information.st_mode & 0o077 == 0 else {
            throw .unusable(
                path: path,
                reason: "others may read it, so what is in it is no secret any more: delete it, "
                    + "and it is made anew")
        }
        return try PEMFile.read(descriptor: descriptor, path)
    }

    /// Puts `content` at `path`, for its owner alone. What was there is replaced: a symbolic link
    /// too, and not what it leads to.
    public static func write(_ content: [UInt8], to path: String) throws(CredentialError) {
        try PEMFile.write(content, to: path, permissions: 0o600)
    }
}
