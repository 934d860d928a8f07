// `martletd --check-config`: the files that a configuration names, without a running broker.

import Configuration
import Credentials
import Glibc
import QueueStore

/// `martletd --check-config`: checks the files that the configuration names.
public enum ConfigurationCheck {
    /// Reads and checks certificates, keys and lists as a start does, and whether the start may
    /// write the data directory and the directory of files, and whether the stores fit the shards.
    /// Opens no listener and writes nothing.
    ///
    /// - Returns: what a start accepts and clients do not: certificates that have expired.
    public static func run(_ settings: BrokerSettings) throws(StartError) -> [String] {
        _ = try TrustMaterial(settings)
        let now = Int64(time(nil))
        let warnings = try ListenerSet.checkFiles(settings).filter { $0.end < now }.map {
            "the certificate in \($0.file) has expired: clients refuse it"
        }
        do throws(StoreError) {
            try check(
                directory: settings.dataDirectory,
                files: [LMDBQueueStore.dataFileName, BrokerServer.ticketKeyFile])
            let map = ShardMap(settings.shards)
            for place in 1..<map.count {
                let directory = map.directory(of: place, in: settings.dataDirectory)
                var information = stat()
                // A start makes the folder of the shards, too.
                guard stat(directory, &information) == 0 else { continue }
                try check(directory: directory, files: [LMDBQueueStore.dataFileName])
            }
            if let directory = settings.files.directory, settings.files.bytesPerApp > 0 {
                try check(directory: directory, files: [])
            }
        } catch {
            throw .store(error)
        }
        let layout = ShardLayout(settings, in: settings.dataDirectory)
        if settings.cluster.isUsed {
            // A store that is missing is copied from another node.
            try layout.checkNames()
            try layout.checkApps()
        } else {
            try layout.checkForStart()
        }
        do throws(CredentialError) {
            _ = try Operators(dataDirectory: settings.dataDirectory)
        } catch {
            throw .credentials(error)
        }
        return warnings
    }

    /// A start makes the directory if its parent is there.
    private static func check(directory path: String, files: [String]) throws(StoreError) {
        var information = stat()
        guard stat(path, &information) != 0 else {
            guard information.st_mode & S_IFMT == S_IFDIR else {
                throw .system(call: "open", path: path, errno: ENOTDIR)
            }
            try access(path, R_OK | W_OK | X_OK)
            for file in files.map({ "\(path)/\($0)" }) where stat(file, &information) == 0 {
                try access(file, R_OK | W_OK)
            }
            return
        }
        guard errno == ENOENT else {
            throw .system(call: "stat", path: path, errno: errno)
        }
        // Without a slash the parent is the working directory.
        var parent = path[...]
        while parent.last == "/" { parent.removeLast() }
        let slash = parent.lastIndex(of: "/")
        let directory = slash.map { String(parent[..<$0]) } ?? "."
        try access(directory.isEmpty ? "/" : directory, W_OK | X_OK)
    }

    private static func access(_ path: String, _ mode: Int32) throws(StoreError) {
        guard Glibc.access(path, mode) == 0 else {
            throw .system(call: "access", path: path, errno: errno)
        }
    }
}
