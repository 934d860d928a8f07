// The names of the operations that MQTT clients publish as requests: those of JSON messages that
// have no packet of MQTT.

/// The operations that MQTT clients publish as requests.
public enum RequestOperations {
    /// Whether there is an operation of this name.
    public static func contain(_ name: String) -> Bool {
        JSONPacketReader.MessageType(rawValue: name).map { $0.alternativeOfMQTT == nil } ?? false
    }
}
