// `martletd --check-config`: the files that a configuration names, without a running broker.

import Configuration

/// `martletd --check-config`: checks the files that the configuration names.
public enum ConfigurationCheck {
    /// Reads and checks certificates, keys and lists as a start does. Opens no listener and writes
    /// nothing.
    public static func run(_ settings: BrokerSettings) throws(StartError) {
        _ = try TrustMaterial(settings)
        try ListenerSet.checkFiles(settings)
    }
}
