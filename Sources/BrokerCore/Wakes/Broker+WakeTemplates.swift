// Templates of apps: what a relay sends to targets of a kind, set by operators. The core keeps them
// as text that the edge has parsed, and puts them into the requests for targets of their kinds, so
// that the relay always has those that count.

import Primitives

/// The templates of the apps.
struct WakeTemplateTable {
    /// By app and kind. An app without templates has no entry.
    private var apps: [Index<App>: [WakeTarget.Kind: [UInt8]]] = [:]

    subscript(app: Index<App>, kind: WakeTarget.Kind) -> [UInt8]? {
        get { apps[app]?[kind] }
        set {
            apps[app, default: [:]][kind] = newValue
            if apps[app]!.isEmpty { apps[app] = nil }
        }
    }

    /// In the order of the kinds.
    func all(of app: Index<App>) -> [(kind: WakeTarget.Kind, json: [UInt8])] {
        guard let templates = apps[app] else { return [] }
        return WakeTarget.Kind.allCases.compactMap { kind in templates[kind].map { (kind, $0) } }
    }
}

extension Broker {
    // MARK: - Operators

    /// Sets the template of an app for targets of a kind; it is durable with the pending batch.
    ///
    /// - Parameter json: a JSON object of at most ``CoreLimits/wakeTemplateBytesMaximum``, which
    ///   the caller has parsed.
    /// - Returns: whether there is such an app.
    public mutating func setWakeTemplate(
        _ json: [UInt8], for kind: WakeTarget.Kind, app name: [UInt8]
    ) throws(NoRoom) -> Bool {
        precondition(
            json.count <= CoreLimits.wakeTemplateBytesMaximum,
            "a template of \(json.count) bytes")
        guard let app = app(named: name) else { return false }
        let row = wakeTemplateRow(json, for: kind, app: name)
        let old = wakeTemplates[app, kind].map {
            wakeTemplateRow($0, for: kind, app: name).pageByteCount
        }
        guard let permit = admitGrowth(of: row.pageByteCount, replacing: old ?? 0) else {
            throw NoRoom()
        }
        wakeTemplates[app, kind] = json
        commits.put(row, permit)
        commits.commitSoon()
        return true
    }

    /// Removes a template: the relay's own counts again.
    ///
    /// - Returns: whether there was one.
    public mutating func removeWakeTemplate(
        for kind: WakeTarget.Kind, app name: [UInt8]
    ) -> Bool {
        guard let app = app(named: name), wakeTemplates[app, kind] != nil else { return false }
        wakeTemplates[app, kind] = nil
        commits.remove(
            .wakeTemplates, renewable: [RecordKey.name(app: name, [kind.rawValue])])
        commits.commitSoon()
        return true
    }

    /// The templates of an app, in the order of their kinds; nil if there is no such app.
    public func wakeTemplates(
        app name: [UInt8]
    ) -> [(kind: WakeTarget.Kind, json: [UInt8])]? {
        app(named: name).map { wakeTemplates.all(of: $0) }
    }

    /// Removes the templates of an app that is deleted.
    mutating func forgetWakeTemplates(of app: Index<App>) {
        let name = registry.apps[app].name
        for (kind, _) in wakeTemplates.all(of: app) {
            wakeTemplates[app, kind] = nil
            commits.remove(
                .wakeTemplates, renewable: [RecordKey.name(app: name, [kind.rawValue])])
        }
    }

    // MARK: - Requests

    /// The member of a request with the templates for its targets, each once; nil for none.
    func wakeTemplates(of app: Index<App>, for targets: [WakeTarget]) -> [UInt8]? {
        var text: [UInt8] = []
        for (kind, json) in wakeTemplates.all(of: app)
        where targets.contains(where: { $0.kind == kind }) {
            text.append(UInt8(ascii: text.isEmpty ? "{" : ","))
            text += "\"\(kind.name)\":".utf8
            text += json
        }
        return text.isEmpty ? nil : text + "}".utf8
    }

    // MARK: - Rows

    private func wakeTemplateRow(
        _ json: [UInt8], for kind: WakeTarget.Kind, app: [UInt8]
    ) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(json)
        return RecordChange(
            table: .wakeTemplates, key: RecordKey.name(app: app, [kind.rawValue]),
            value: row.bytes)
    }

    mutating func restoreWakeTemplate(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count == 2 + Int(appCount),
            let app = app(named: Array(key[1..<1 + Int(appCount)])),
            let kind = key.last.flatMap(WakeTarget.Kind.init(rawValue:))
        else { throw .danglingRecord(.wakeTemplates, key: key) }
        var row = try RecordReader(value, version: 1, table: .wakeTemplates, key: key)
        let json = try row.readString()
        guard json.count <= CoreLimits.wakeTemplateBytesMaximum else {
            throw .unreadableRecord(.wakeTemplates, key: key)
        }
        wakeTemplates[app, kind] = json
    }
}
