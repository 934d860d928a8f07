// The client of the HTTP API for operators, for the command line, by libcurl. Its calls block.

import Administration
import CCurl
import CommandLineOptions
import Files
import Glibc
import MartletClient

/// Makes requests to the HTTP API of a broker. One request at a time.
struct HTTPAdministrationClient: ~Copyable {
    private let handle: UnsafeMutableRawPointer
    /// The nodes of a cluster; one for a single broker.
    private let servers: [String]
    private let token: String
    private let authorityFile: String?
    private let answer = Answer()

    /// The nodes that a command may name: as many as clients try.
    private static let serversMaximum = 8
    /// A person waits for it: a broker that cannot be reached is reported soon.
    private static let connectSecondsMaximum = 10

    /// - Parameters:
    ///   - server: `https://HOST:PORT`; `http://` only for this machine. Several with commas.
    ///   - authorityFile: the trusted authorities, as PEM; nil for the system's.
    init(server: String, token: String, authorityFile: String?) throws(UsageError) {
        servers = server.split(separator: ",", omittingEmptySubsequences: false).map { part in
            var base = part
            while base.hasPrefix(" ") { base.removeFirst() }
            while base.hasSuffix("/") || base.hasSuffix(" ") { base.removeLast() }
            return String(base)
        }
        guard servers.count <= Self.serversMaximum else {
            throw UsageError(
                "--server has \(servers.count) addresses; \(Self.serversMaximum) are allowed")
        }
        for server in servers { try Self.check(server) }
        self.token = token
        self.authorityFile = authorityFile
        curl_global_init(Int(CURL_GLOBAL_ALL))
        guard let handle = curl_easy_init() else {
            preconditionFailure("libcurl \(String(cString: curl_version())) gives no handle")
        }
        self.handle = handle
    }

    deinit { curl_easy_cleanup(handle) }

    /// Whether an address is one of the HTTP API.
    static func takes(_ server: String) -> Bool {
        server.hasPrefix("https://") || server.hasPrefix("http://")
    }

    /// The address that is used: the first one, or that which answered last.
    var server: String { servers[answer.place] }

    private static func check(_ server: String) throws(UsageError) {
        guard takes(server) else {
            throw UsageError("--server must be https://HOST:PORT, not \"\(server)\"")
        }
        let isPlain = server.hasPrefix("http://")
        let authority = server.dropFirst(isPlain ? 7 : 8)
        guard !authority.isEmpty, !authority.contains(where: { "/?#@ ".contains($0) }) else {
            throw UsageError("--server must be https://HOST:PORT, not \"\(server)\"")
        }
        guard !isPlain || isLoopback(authority) else {
            throw UsageError(
                "a token must not cross a network without TLS: --server needs https://, not "
                    + "\"\(server)\"")
        }
    }

    /// Whether an authority is this machine: localhost, 127.0.0.0/8 or [::1]. A name that begins
    /// with 127. may be any machine.
    private static func isLoopback(_ authority: Substring) -> Bool {
        if authority == "[::1]" || authority.hasPrefix("[::1]:") { return true }
        let host = authority.prefix { $0 != ":" }
        var address = in_addr()
        return host == "localhost"
            || host.hasPrefix("127.") && inet_pton(AF_INET, String(host), &address) == 1
    }

    /// Makes a request and waits for its reply. A node that has certainly not executed it, because
    /// it cannot be reached or is not the primary, is followed by the next one.
    func send<Request: AdministrationRequest>(
        _ request: Request
    ) throws(AdministrationError) -> Request.Reply {
        let message = APIMessage(request)
        for _ in 1..<servers.count {
            let code = perform(message)
            let isElsewhere =
                Self.isNotReached(code) || code == CURLE_OK && curl_status(handle) == 307
            if !isElsewhere {
                do throws(AdministrationError) {
                    return try reply(to: request, after: code)
                } catch {
                    guard Self.isOfStandby(error) else { throw error }
                }
            }
            answer.place = (answer.place + 1) % servers.count
        }
        return try reply(to: request, after: perform(message))
    }

    private static func isNotReached(_ code: CURLcode) -> Bool {
        code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST
    }

    /// Whether a node has refused because it is not the primary of its cluster. Other refusals with
    /// the status 503 may follow a change.
    private static func isOfStandby(_ error: AdministrationError) -> Bool {
        guard case .refused(let refusal) = error else { return false }
        return [ReasonCode.serverUnavailable.rawValue, ReasonCode.useAnotherServer.rawValue]
            .contains(refusal.reason)
    }

    private func reply<Request: AdministrationRequest>(
        to request: Request, after code: CURLcode
    ) throws(AdministrationError) -> Request.Reply {
        guard code == CURLE_OK else { throw failure(code) }
        let status = curl_status(handle)
        // A token goes to the named servers only.
        guard status != 307 else {
            throw .unreachable(
                server: server,
                reason: "it is a standby of a cluster: name all nodes, with commas between them")
        }
        // The API answers with JSON, also what it refuses.
        guard answer.content.first == UInt8(ascii: "{") else {
            throw .noAPI(server: server, status: status)
        }
        return try Request.reply(status: status, content: answer.content)
    }

    private func perform(_ message: APIMessage) -> CURLcode {
        answer.content = []
        var fields: UnsafeMutablePointer<curl_slist>?
        defer { curl_slist_free_all(fields) }
        // Without the empty field libcurl waits for 100 Continue before it sends more than a
        // kilobyte.
        for field in [
            "Authorization: Bearer \(token)", "Content-Type: application/json", "Expect:",
        ] {
            fields = curl_slist_append(fields, field)
        }
        curl_easy_reset(handle)
        curl_set_list(handle, CURLOPT_HTTPHEADER, fields)
        curl_set_text(handle, CURLOPT_URL, server + message.target)
        curl_set_text(handle, CURLOPT_CUSTOMREQUEST, message.method.rawValue)
        curl_set_text(handle, CURLOPT_USERAGENT, "martlet/\(ProgramVersion.text)")
        curl_set_number(
            handle, CURLOPT_PROTOCOLS, Int(CURLPROTO_HTTPS) | Int(CURLPROTO_HTTP))
        curl_set_number(handle, CURLOPT_NOSIGNAL, 1)
        // A name may be "." or "..", which libcurl would otherwise resolve (RFC 3986, 5.2.4).
        curl_set_number(handle, CURLOPT_PATH_AS_IS, 1)
        // A proxy of the environment would read the token of a request without TLS.
        if server.hasPrefix("http://") { curl_set_text(handle, CURLOPT_NOPROXY, "*") }
        curl_set_number(handle, CURLOPT_CONNECTTIMEOUT, Self.connectSecondsMaximum)
        curl_set_number(handle, CURLOPT_TIMEOUT, AdministrationClient.answerSecondsMaximum)
        // On a connection that was used before, libcurl repeats a request that gets no answer.
        curl_set_number(handle, CURLOPT_FRESH_CONNECT, message.method == .get ? 0 : 1)
        if let authorityFile { curl_set_text(handle, CURLOPT_CAINFO, authorityFile) }
        curl_set_receiver(
            handle,
            { bytes, size, count, context in
                guard let bytes, let context else { return 0 }
                let answer = Unmanaged<Answer>.fromOpaque(context).takeUnretainedValue()
                return answer.append(UnsafeRawBufferPointer(start: bytes, count: size * count))
            }, Unmanaged.passUnretained(answer).toOpaque())
        return answer.withErrorText { error in
            curl_set_buffer(handle, CURLOPT_ERRORBUFFER, error)
            defer { curl_set_buffer(handle, CURLOPT_ERRORBUFFER, nil) }
            guard var content = message.content else { return curl_easy_perform(handle) }
            curl_set_number(handle, CURLOPT_POSTFIELDSIZE, content.count)
            // libcurl reads the content until it returns.
            return content.withUnsafeMutableBytes { bytes in
                curl_set_buffer(handle, CURLOPT_POSTFIELDS, bytes.baseAddress)
                return curl_easy_perform(handle)
            }
        }
    }

    private func failure(_ code: CURLcode) -> AdministrationError {
        if code == CURLE_OPERATION_TIMEDOUT { return .timedOut }
        if code == CURLE_WRITE_ERROR {
            return .malformedReply("longer than \(AdministrationLine.replyByteCountMaximum) bytes")
        }
        var text = answer.errorText
        if text.isEmpty { text = String(cString: curl_easy_strerror(code)) }
        if Self.isOfOtherProtocol(code, text) {
            text += "; is it the port of another protocol? \(CommandFailure.listenerAdvice)"
        }
        return .unreachable(server: server, reason: text)
    }

    /// Whether what answered may speak MQTT, or HTTP with TLS where none was expected, or without.
    private static func isOfOtherProtocol(_ code: CURLcode, _ text: String) -> Bool {
        code == CURLE_GOT_NOTHING || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_RECV_ERROR
            || code == CURLE_WEIRD_SERVER_REPLY || text.contains("wrong version number")
    }

    /// What libcurl writes to.
    private final class Answer {
        /// Of the server among the named ones.
        var place = 0
        var content: [UInt8] = []
        private(set) var errorText = ""

        /// Returns how many bytes were taken; libcurl ends the request if it was not all.
        func append(_ bytes: UnsafeRawBufferPointer) -> Int {
            let maximum = AdministrationLine.replyByteCountMaximum
            guard content.count + bytes.count <= maximum else { return 0 }
            content.append(contentsOf: bytes)
            return bytes.count
        }

        func withErrorText(_ body: (UnsafeMutableRawPointer?) -> CURLcode) -> CURLcode {
            var text = [CChar](repeating: 0, count: Int(CURL_ERROR_SIZE))
            let code = text.withUnsafeMutableBytes { body($0.baseAddress) }
            errorText = text.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
            return code
        }
    }
}
