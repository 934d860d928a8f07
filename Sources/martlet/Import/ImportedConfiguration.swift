// The configuration that an import writes: listeners, TLS and limits. A listener that would admit
// somebody whom Mosquitto refuses, or with more rights than there, is left out, and told.

import Configuration
import JSON5

struct ImportedConfiguration {
    private(set) var text = ""
    /// Whether a listener admits clients by pre-shared keys.
    private(set) var takesPreSharedKeys = false

    private typealias Listener = MosquittoConfiguration.Listener

    private let settings: MosquittoConfiguration
    private let app: String
    /// The first listener that is taken and asks for certificates.
    private var certified: Listener?

    /// - Parameter path: `mosquitto.conf`, for the report and the first line.
    init(
        _ settings: MosquittoConfiguration, of path: String, app: String,
        report: inout ImportReport
    ) {
        self.settings = settings
        self.app = app
        let isOpen = isOpen(path, report: &report)
        var listeners: [String] = []
        for listener in settings.listeners {
            if let reason = refusal(of: listener) {
                report.add(
                    .refused, at: listener.place,
                    "listener" + (listener.port == 0 ? "" : " \(listener.port)") + ": \(reason)")
                continue
            }
            if listener.requiresCertificate { certified = certified ?? listener }
            takesPreSharedKeys = takesPreSharedKeys || listener.usesPreSharedKeys
            listeners.append(url(of: listener, isOpen: isOpen, report: &report))
        }
        if settings.listeners.isEmpty {
            listeners.append("tcp://localhost:1883?\(isOpen ? "anonymous&" : "")passwords=\(app)")
            report.add(.taken, at: path, "no listener: tcp://localhost:1883")
        } else if listeners.isEmpty {
            report.add(
                .refused, at: path,
                "no listener is taken; martletd does not start until one is written")
        }
        tellUnusedFiles(report: &report)
        write(listeners, path)
        check(path, hasListeners: !listeners.isEmpty, report: &report)
    }

    // MARK: - Clients without a name

    /// Whether clients without a user name are admitted, as users of the app demo.
    private func isOpen(_ path: String, report: inout ImportReport) -> Bool {
        // Without listeners Mosquitto accepts anonymous clients of its machine.
        let standard = settings.listeners.isEmpty ? "true" : "false"
        guard (settings.allowsAnonymous?.text ?? standard) == "true" else { return false }
        let place = settings.allowsAnonymous?.place ?? path
        if let reason = settings.reasonAgainstOtherClients {
            report.add(
                .refused, at: place,
                "allow_anonymous: \(reason); when the rights of the app demo are right for "
                    + "clients without a user name (martlet app rights --app demo), add "
                    + "?anonymous to the listener")
            return false
        }
        report.add(
            .changed, at: place,
            "allow_anonymous: clients without a user name are users of the app demo; make it with "
                + "martlet app create demo")
        return true
    }

    // MARK: - Listeners

    /// Why a listener is not taken; nil if it is.
    private func refusal(of listener: Listener) -> String? {
        if let refusal = listener.refusal { return refusal }
        let files = [listener.certificateFile, listener.keyFile].compactMap { $0 }
        guard files.count != 1 else { return "it has one of certfile and keyfile" }
        if let file = files.first(where: { $0.contains("&") }) {
            return "& separates options here; give the file another name: \(file)"
        }
        guard listener.requiresCertificate || listener.usesPreSharedKeys else {
            return listener.namesIdentity
                ? "use_identity_as_username without require_certificate admits nobody" : nil
        }
        let (word, proof, setting) =
            listener.requiresCertificate
            ? ("require_certificate", "certificate", "?clientCertificates=required")
            : ("psk_hint", "pre-shared key", "tls.pskFile")
        let advice = "write the listener and \(setting) with tls.clientApp when that is right"
        guard listener.namesIdentity else {
            return "\(word) without use_identity_as_username asks for a \(proof) and a password; "
                + "here a \(proof) alone is a login; \(advice)"
        }
        if let reason = settings.reasonAgainstOtherClients {
            return "\(word): clients with a \(proof) would have the rights of the app \(app): "
                + "\(reason); \(advice)"
        }
        guard !files.isEmpty else {
            return "\(word): a listener of TLS needs tls.certificateFile and tls.keyFile here; "
                + advice
        }
        return listener.requiresCertificate
            ? refusal(ofCertificates: listener) : refusal(ofPreSharedKeys: listener)
    }

    private func refusal(ofCertificates listener: Listener) -> String? {
        guard listener.authorityFile != nil else { return "require_certificate needs a cafile" }
        guard !takesPreSharedKeys else { return Self.bothProofs }
        guard let certified else { return nil }
        // The broker has one authority for all.
        return certified.authorityFile == listener.authorityFile
            && certified.revocationFile == listener.revocationFile
            ? nil
            : "cafile and crlfile are not those of the listener at \(certified.place), and there "
                + "is one tls.clientAuthorityFile and one tls.crlFile"
    }

    private func refusal(ofPreSharedKeys listener: Listener) -> String? {
        guard settings.preSharedKeyFile != nil else { return "psk_hint needs a psk_file" }
        return certified == nil ? nil : Self.bothProofs
    }

    /// Keys of `tls.pskFile` are good on each listener of TLS.
    private static let bothProofs =
        "one listener takes certificates and another one pre-shared keys, which are good on both "
        + "here"

    private func url(
        of listener: Listener, isOpen: Bool, report: inout ImportReport
    ) -> String {
        let usesTLS = listener.certificateFile != nil
        let scheme =
            listener.isWebSocket ? (usesTLS ? "wss" : "ws") : (usesTLS ? "tls" : "tcp")
        let host = listener.host ?? "*"
        let isAddress = host.utf8.allSatisfy { "0123456789abcdefABCDEF.:".utf8.contains($0) }
        let isLoopback = host == "localhost" || host.hasPrefix("127.") || host == "::1"
        var written = host.contains(":") ? "[\(host)]" : host
        if host != "*", host != "localhost", !isAddress {
            report.add(
                .changed, at: listener.place,
                "listener on \(host): Martlet takes addresses and no names; it is localhost here")
            written = "localhost"
        }
        var options: [String] = []
        let hasProof = listener.requiresCertificate || listener.usesPreSharedKeys
        if isOpen, !hasProof { options.append("anonymous") }
        if let file = listener.certificateFile, let key = listener.keyFile {
            options += ["certificateFile=\(file)", "keyFile=\(key)"]
        }
        if listener.requiresCertificate { options.append("clientCertificates=required") }
        let isPlain = !usesTLS && !isLoopback && written != "localhost"
        if isPlain, listener.isWebSocket { options.append("insecure") }
        if isPlain {
            report.add(
                .changed, at: listener.place,
                "listener \(listener.port): passwords cross the network without TLS, as before")
        }
        // There, the name in the certificate or key is the user, and no password is asked for.
        if !hasProof { options.append("passwords=\(app)") }
        let url = "\(scheme)://\(written):\(listener.port)?\(options.joined(separator: "&"))"
        report.add(.taken, at: listener.place, "listener \(listener.port): \(url)")
        return url
    }

    private func tellUnusedFiles(report: inout ImportReport) {
        for listener in settings.listeners {
            guard let file = listener.revocationFile else { continue }
            let isTaken = certified?.revocationFile == file
            report.add(
                isTaken ? .taken : .ignored, at: listener.place,
                isTaken
                    ? "crlfile \(file): tls.crlFile"
                    : "crlfile \(file): its listener takes no certificates here")
        }
        if let file = settings.preSharedKeyFile, !takesPreSharedKeys {
            let isAsked = settings.listeners.contains { $0.usesPreSharedKeys }
            report.add(
                isAsked ? .refused : .ignored, at: file.place,
                "psk_file \(file.text): no listener with psk_hint is "
                    + (isAsked ? "taken; write tls.pskFile with it" : "there"))
        }
    }

    // MARK: - Text

    private mutating func write(_ listeners: [String], _ path: String) {
        var sections: [(name: String, members: [String])] = []
        func add(_ section: String, _ member: String) {
            if let index = sections.firstIndex(where: { $0.name == section }) {
                sections[index].members.append(member)
            } else {
                sections.append((section, [member]))
            }
        }
        if let file = certified?.authorityFile {
            add("tls", "clientAuthorityFile: \(JSONText.quoted(file))")
        }
        if let file = certified?.revocationFile { add("tls", "crlFile: \(JSONText.quoted(file))") }
        if takesPreSharedKeys, let file = settings.preSharedKeyFile {
            add("tls", "pskFile: \(JSONText.quoted(file.text))")
        }
        if certified != nil || takesPreSharedKeys {
            add("tls", "clientApp: \(JSONText.quoted(app))")
        }
        for (key, value) in settings.settings {
            let words = key.split(separator: ".")
            add(String(words[0]), "\(words[1]): \(value)")
        }
        text = "// Made by `martlet import mosquitto` from \(printable(path)).\n{\n"
        text += "    listeners: [\n"
        for listener in listeners { text += "        \(JSONText.quoted(listener)),\n" }
        text += "    ],\n"
        for section in sections {
            text += "    \(section.name): { \(section.members.joined(separator: ", ")) },\n"
        }
        text += "}\n"
    }

    /// Reads the configuration as martletd does.
    private func check(_ path: String, hasListeners: Bool, report: inout ImportReport) {
        do throws(ConfigurationError) {
            _ = try LoadedConfiguration(text: Array(text.utf8))
        } catch {
            for complaint in error.complaints where hasListeners || complaint.key != "listeners" {
                report.add(
                    .refused, at: path,
                    "martletd does not start with what is written: \(complaint.key ?? "the text") "
                        + complaint.message)
            }
        }
    }
}

extension MosquittoConfiguration {
    /// Why clients that log in without a password would have more rights than in Mosquitto; nil if
    /// nobody has fewer rights there than an app has.
    fileprivate var reasonAgainstOtherClients: String? {
        if hasSeveralLists { return "listeners have users and rights of their own" }
        if let restriction {
            return "\(restriction.text) at \(restriction.place) may restrict them, and is not taken"
        }
        return accessFile.map { "their topics in \($0.text) are not taken" }
    }
}
