// One request of libcurl and its memory.

import BrokerTerms
import CCurl
import CommandLineOptions
import Glibc

/// One request and its memory.
final class Transfer {
    let handle: curl_handle
    private let rules: AddressRules
    private(set) var tag: UInt64 = 0
    private var fields: curl_fields?
    private var answerByteCount = 0
    private var fieldByteCount = 0
    private(set) var answer: [UInt8] = []
    private var isAddressRefused = false
    private var isOperators = false
    /// Whether other requests may be on its connection (HTTP/2).
    private(set) var isMultiplexed = false
    /// The requests that had been answered when it began.
    private(set) var answeredBefore: UInt64 = 0

    init(_ rules: AddressRules) {
        self.rules = rules
        guard let handle = curl_easy_init() else {
            preconditionFailure("libcurl \(String(cString: curl_version())) gives no handle")
        }
        self.handle = handle
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(fields)
    }

    /// - Parameter answered: how many requests have been answered.
    func prepare(_ request: TransferRequest, tag: UInt64, answered: UInt64) {
        self.tag = tag
        isMultiplexed = request.isMultiplexed
        answeredBefore = answered
        answerByteCount = 0
        fieldByteCount = 0
        answer = []
        isAddressRefused = false
        isOperators = request.isOperators
        curl_easy_reset(handle)
        curl_slist_free_all(fields)
        fields = nil
        // Without the empty field libcurl waits for 100 Continue before it sends more than a
        // kilobyte.
        for field in request.fields + ["Content-Type: \(request.contentType)", "Expect:"] {
            fields = curl_slist_append(fields, field)
        }
        curl_set_list(handle, CURLOPT_HTTPHEADER, fields)
        curl_set_text(handle, CURLOPT_URL, request.url)
        curl_set_text(handle, CURLOPT_USERAGENT, "martlet-gateway/\(ProgramVersion.text)")
        curl_set_number(handle, CURLOPT_PROTOCOLS, Int(CURLPROTO_HTTPS) | Int(CURLPROTO_HTTP))
        curl_set_number(handle, CURLOPT_FOLLOWLOCATION, 0)
        curl_set_number(handle, CURLOPT_NOSIGNAL, 1)
        // The end of a request does not wait for a name server that does not answer.
        curl_set_number(handle, CURLOPT_QUICK_EXIT, 1)
        // A proxy of the environment would be the address that is checked.
        curl_set_text(handle, CURLOPT_PROXY, "")
        curl_set_number(handle, CURLOPT_TIMEOUT_MS, request.timeoutMilliseconds)
        curl_set_number(
            handle, CURLOPT_CONNECTTIMEOUT_MS, RelayLimits.connectMillisecondsMaximum)
        if let file = request.authorityFile { curl_set_text(handle, CURLOPT_CAINFO, file) }
        TLSReading.bound(handle)
        // Only connections to the services of platforms are shared, and judged by their answers:
        // frames of HTTP/2 without content would keep libcurl reading, and a connection that is
        // dead would be used again.
        curl_set_number(
            handle, CURLOPT_HTTP_VERSION,
            Int(request.isMultiplexed ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1))
        if request.isMultiplexed {
            // It waits for a connection that can take one more request.
            curl_set_number(handle, CURLOPT_PIPEWAIT, 1)
        }
        if let identity = request.identity {
            var (certificate, key) = (identity.certificate, identity.key)
            curl_set_copied(handle, CURLOPT_SSLCERT_BLOB, &certificate, certificate.count)
            curl_set_copied(handle, CURLOPT_SSLKEY_BLOB, &key, key.count)
        }
        curl_set_number(handle, CURLOPT_POST, 1)
        curl_set_number(handle, CURLOPT_POSTFIELDSIZE, request.body.count)
        var body = request.body
        body.withUnsafeMutableBytes { bytes in
            // libcurl copies it.
            _ = curl_set_buffer(handle, CURLOPT_COPYPOSTFIELDS, bytes.baseAddress)
        }
        let context = Unmanaged.passUnretained(self).toOpaque()
        curl_set_context(handle, context)
        curl_set_receiver(
            handle,
            { bytes, size, count, context in
                guard let bytes, let context else { return 0 }
                let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                let byteCount = size * count
                let wanted = min(byteCount, transfer.answerRoom)
                return transfer.take(
                    (0..<wanted).map { UInt8(bitPattern: bytes[$0]) }, of: byteCount)
            }, context)
        curl_set_field_receiver(
            handle,
            { _, size, count, context in
                guard let context else { return 0 }
                let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                return transfer.takeField(of: size * count)
            }, context)
        curl_set_address_opener(
            handle,
            { context, _, address in
                guard let context, let address else { return CURL_SOCKET_BAD }
                let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                guard transfer.permits(curl_bytes_of(address)) else { return CURL_SOCKET_BAD }
                return Transfer.socket(for: address.pointee)
            }, context)
        // A connection that the operator's own request has opened, to an address that a user may
        // not name, is used for later requests to its host too.
        curl_set_request_check(
            handle,
            { context, address, _, _, _ in
                guard let context, let address else { return CURL_PREREQFUNC_ABORT }
                let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                return transfer.permits(IPAddress(String(cString: address).utf8))
                    ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
            }, context)
    }

    /// A socket that the kernel closes when a peer no longer acknowledges what was sent: a
    /// firewall may have forgotten the connection, and HTTP/2 would wait on it for others too.
    private static func socket(for address: curl_sockaddr) -> curl_socket_t {
        let descriptor = Glibc.socket(
            address.family, address.socktype | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
        var milliseconds = RelayLimits.unacknowledgedMilliseconds
        if descriptor >= 0 {
            setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds,
                socklen_t(MemoryLayout<UInt32>.size))
        }
        return descriptor
    }

    /// Frees what the request needed.
    func forget() { curl_easy_reset(handle) }

    private func permits(_ address: curl_address_bytes) -> Bool {
        let bytes = withUnsafeBytes(of: address.bytes) { Array($0.prefix(Int(address.byte_count))) }
        return mayUse(rules.permits(bytes: bytes))
    }

    /// - Parameter address: nil for none of IPv4 and IPv6.
    private func permits(_ address: IPAddress?) -> Bool {
        mayUse(address.map { rules.permits($0) } ?? false)
    }

    /// - Parameter isPermitted: what the rules say of an address.
    /// - Returns: whether the request may go there.
    private func mayUse(_ isPermitted: Bool) -> Bool {
        if isOperators || isPermitted { return true }
        isAddressRefused = true
        return false
    }

    /// Bytes of the answer that are still kept.
    private var answerRoom: Int { RelayLimits.answerByteCountMaximum - answer.count }

    /// Keeps the beginning of the answer. After too many bytes the request ends.
    private func take(_ bytes: [UInt8], of byteCount: Int) -> Int {
        answer += bytes
        answerByteCount += byteCount
        return answerByteCount <= RelayLimits.answerByteCountMaximum ? byteCount : 0
    }

    /// Counts a field, or a line between fields. After too many bytes the request ends.
    private func takeField(of byteCount: Int) -> Int {
        fieldByteCount += byteCount
        return fieldByteCount <= RelayLimits.answerFieldsByteCountMaximum ? byteCount : 0
    }

    /// What the server's clock says, in Unix seconds; 0 without an answer.
    var serverSeconds: Int { curl_server_seconds(handle) }

    /// Whether there was a connection on which the request could be sent.
    var wasConnected: Bool { curl_was_connected(handle) != 0 }

    func result(_ code: CURLcode) -> AttemptResult {
        // Fields without end are no answer, whatever the first of them say.
        if fieldByteCount > RelayLimits.answerFieldsByteCountMaximum {
            return .failed("answer-too-large")
        }
        let isCut = answerByteCount > RelayLimits.answerByteCountMaximum
        // The head of an answer that is too long has arrived, and says what it means.
        if code == CURLE_OK || code == CURLE_WRITE_ERROR && isCut {
            return .answered(
                status: curl_status(handle),
                retryAfterSeconds: UInt64(clamping: curl_retry_after(handle)))
        }
        if isAddressRefused { return .failed(AttemptResult.addressRefusal) }
        return .failed(String(cString: curl_easy_strerror(code)))
    }
}
