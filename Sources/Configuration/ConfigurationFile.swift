// Reads the configuration from disk. The only place in this module that touches the system.
import Glibc

/// The file the operator wrote.
public enum ConfigurationFile {
    /// No configuration is longer; a wrong path, such as a device, must not fill the memory.
    static let byteCountMaximum = 1 << 20

    /// Reads and checks a configuration file and what overrules it.
    ///
    /// - Parameter path: nil for no file: the defaults.
    public static func load(
        path: String?, overrides: [SettingOverride]
    ) throws(ConfigurationError) -> LoadedConfiguration {
        guard let path else { return try LoadedConfiguration(text: nil, overrides: overrides) }
        return try LoadedConfiguration(text: try read(path), path: path, overrides: overrides)
    }

    private static func read(_ path: String) throws(ConfigurationError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { throw unreadable(path, String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw unreadable(path, String(cString: strerror(errno))) }
            if count == 0 { return text }
            text += chunk[..<count]
            if text.count > byteCountMaximum {
                throw unreadable(path, "is larger than \(byteCountMaximum) bytes")
            }
        }
    }

    private static func unreadable(_ path: String, _ reason: String) -> ConfigurationError {
        ConfigurationError(complaints: [.init(origin: nil, key: nil, message: "\(path): \(reason)")]
        )
    }
}
