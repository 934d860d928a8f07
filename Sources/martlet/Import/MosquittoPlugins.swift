// The options of mosquitto.conf(5) about plugins of Mosquitto 2.1 whose files are taken:
// persist-sqlite, which keeps what persists in a database, and password-file and acl-file, which
// read the same files as the options password_file and acl_file.

/// The plugins of a configuration.
struct MosquittoPlugins {
    private enum Kind: String {
        case database = "mosquitto_persist_sqlite"
        case passwords = "mosquitto_password_file"
        case accessList = "mosquitto_acl_file"
    }

    /// What an option about plugins means.
    enum Meaning {
        /// The file of the option password_file.
        case passwordFile
        /// The file of the option acl_file.
        case accessFile
        /// Nothing here, for a reason.
        case nothing(String)
    }

    /// Why persist-sqlite means nothing here.
    private static let reasonOfDatabase = "what is acknowledged is on disk"

    /// The option that loads persist-sqlite; nil if none does.
    private(set) var database: MosquittoConfiguration.Value?
    /// The name that `plugin_load` gives to persist-sqlite.
    private var databaseName: Substring?
    private var databaseFile: String?
    /// The plugin whose options follow; nil for another one.
    private var currentPlugin: Kind?

    /// Takes an option about one of the plugins; nil for anything else.
    mutating func take(_ option: String, _ value: String, at place: String) -> Meaning? {
        switch option {
        case "plugin", "global_plugin", "plugin_load":
            currentPlugin = [.database, .passwords, .accessList].first {
                value.contains($0.rawValue)
            }
            // By its name a listener may use it, and others not.
            if option == "plugin_load", currentPlugin != .database { currentPlugin = nil }
            guard currentPlugin == .database else {
                return currentPlugin.map { _ in .nothing("its file is taken") }
            }
            database = MosquittoConfiguration.Value(text: option, place: place)
            if option == "plugin_load" { databaseName = value.split(separator: " ").first }
            return .nothing(Self.reasonOfDatabase)
        case "auth_plugin":
            currentPlugin = nil
            return nil
        case "plugin_use":
            return databaseName.map { $0 == value } ?? false
                ? .nothing(Self.reasonOfDatabase) : nil
        case "plugin_opt_password_file" where currentPlugin == .passwords: return .passwordFile
        case "plugin_opt_acl_file" where currentPlugin == .accessList: return .accessFile
        default:
            // Of persist-sqlite: db_file, flush_period, page_size and sync.
            guard currentPlugin == .database, option.hasPrefix("plugin_opt_") else { return nil }
            if option == "plugin_opt_db_file" { databaseFile = value }
            return .nothing(Self.reasonOfDatabase)
        }
    }

    /// The file of persist-sqlite; nil if it has none. A location counts before the option.
    func databaseFile(at location: String) -> MosquittoConfiguration.Value? {
        guard let database else { return nil }
        let file = location.isEmpty ? databaseFile : location + "/mosquitto.sqlite3"
        return file.map { MosquittoConfiguration.Value(text: $0, place: database.place) }
    }
}
