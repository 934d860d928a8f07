// Reads the configuration from disk. Only this file of the module uses the system.
import Files

/// The configuration file.
public enum ConfigurationFile {
    /// Reads and checks a configuration file and the options that override it.
    ///
    /// - Parameter path: nil for no file: the defaults.
    public static func load(
        path: String?, overrides: [SettingOverride]
    ) throws(ConfigurationError) -> LoadedConfiguration {
        guard let path else { return try LoadedConfiguration(text: nil, overrides: overrides) }
        return try LoadedConfiguration(text: try read(path), path: path, overrides: overrides)
    }

    private static func read(_ path: String) throws(ConfigurationError) -> [UInt8] {
        do throws(FileFailure) {
            return try SmallFile.read(path)
        } catch {
            throw ConfigurationError(
                complaints: [.init(origin: nil, key: nil, message: "\(path): \(error)")])
        }
    }
}
