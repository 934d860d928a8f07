// The requests that are under way: libcurl's multi interface on the relay's thread. It opens
// connections only to permitted addresses, follows no redirects and uses no proxy.

import CCurl
import CommandLineOptions
import Glibc

/// What wakes the relay's thread while it waits for sockets.
final class RelayWaker: @unchecked Sendable {
    /// libcurl permits `curl_multi_wakeup` on every thread, and nothing else.
    fileprivate let multi: curl_multi_handle

    init() {
        curl_global_init(Int(CURL_GLOBAL_ALL))
        guard let multi = curl_multi_init() else {
            preconditionFailure("libcurl \(String(cString: curl_version())) gives no handle")
        }
        self.multi = multi
    }

    /// Ends the present or the next wait.
    func wake() { curl_multi_wakeup(multi) }

    deinit { curl_multi_cleanup(multi) }
}

/// One HTTP request.
struct HookRequest {
    let url: String
    let authorityFile: String?
    let timeoutSeconds: Int
    let fields: [String]
    let body: [UInt8]
}

final class TransferPool {
    /// A request with its result.
    struct Completion {
        let tag: UInt64
        let result: AttemptResult
    }

    private let waker: RelayWaker
    private let rules: AddressRules
    private var running: [UInt64: Transfer] = [:]
    private var idle: [Transfer] = []

    /// - Parameter requestsMaximum: connections that are kept for further requests.
    init(_ waker: RelayWaker, rules: AddressRules, requestsMaximum: Int) {
        self.waker = waker
        self.rules = rules
        curl_multi_set_number(waker.multi, CURLMOPT_MAXCONNECTS, requestsMaximum)
    }

    deinit {
        for transfer in running.values { curl_multi_remove_handle(waker.multi, transfer.handle) }
    }

    /// Begins a request.
    ///
    /// - Parameter tag: identifies it among those under way.
    func begin(_ request: HookRequest, tag: UInt64) {
        precondition(running[tag] == nil, "request \(tag) is under way")
        let transfer = idle.popLast() ?? Transfer(rules)
        transfer.prepare(request, tag: tag)
        running[tag] = transfer
        let code = curl_multi_add_handle(waker.multi, transfer.handle)
        precondition(code == CURLM_OK, "curl_multi_add_handle: \(code.rawValue)")
    }

    /// Continues all requests as far as they can.
    func perform() -> [Completion] {
        var count: Int32 = 0
        curl_multi_perform(waker.multi, &count)
        var completions: [Completion] = []
        var left: Int32 = 0
        while let message = curl_multi_info_read(waker.multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let context = curl_context(handle)
            else { continue }
            let code = message.pointee.data.result
            let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
            curl_multi_remove_handle(waker.multi, handle)
            running[transfer.tag] = nil
            completions.append(Completion(tag: transfer.tag, result: transfer.result(code)))
            transfer.forget()
            // Few are kept: most hooks are quiet most of the time.
            if idle.count < WebhookLimits.concurrencyMaximum { idle.append(transfer) }
        }
        return completions
    }

    /// Waits until a socket is ready, the waker is called, or the time is over.
    func wait(milliseconds: UInt64) {
        curl_multi_poll(waker.multi, nil, 0, Int32(clamping: milliseconds), nil)
    }
}

/// One request and its memory.
private final class Transfer {
    let handle: curl_handle
    private let rules: AddressRules
    private(set) var tag: UInt64 = 0
    private var fields: curl_fields?
    private var answerByteCount = 0
    private var isAddressRefused = false

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

    func prepare(_ request: HookRequest, tag: UInt64) {
        self.tag = tag
        answerByteCount = 0
        isAddressRefused = false
        curl_easy_reset(handle)
        curl_slist_free_all(fields)
        fields = nil
        // Without the empty field libcurl waits for 100 Continue before it sends more than a
        // kilobyte.
        for field in request.fields + ["Content-Type: application/json", "Expect:"] {
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
        curl_set_number(handle, CURLOPT_TIMEOUT, request.timeoutSeconds)
        curl_set_number(
            handle, CURLOPT_CONNECTTIMEOUT_MS, WebhookLimits.connectMillisecondsMaximum)
        if let file = request.authorityFile { curl_set_text(handle, CURLOPT_CAINFO, file) }
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
            { _, size, count, context in
                guard let context else { return 0 }
                let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                return transfer.take(size * count)
            }, context)
        curl_set_address_opener(
            handle,
            { context, _, address in
                guard let context, let address else { return CURL_SOCKET_BAD }
                let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
                guard transfer.permits(curl_bytes_of(address)) else { return CURL_SOCKET_BAD }
                return socket(
                    address.pointee.family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue),
                    address.pointee.protocol)
            }, context)
    }

    /// Frees what the request needed.
    func forget() { curl_easy_reset(handle) }

    private func permits(_ address: curl_address_bytes) -> Bool {
        let bytes = withUnsafeBytes(of: address.bytes) { Array($0.prefix(Int(address.byte_count))) }
        let isPermitted = rules.permits(bytes: bytes)
        if !isPermitted { isAddressRefused = true }
        return isPermitted
    }

    /// Counts bytes of the answer, which mean nothing. After too many the request ends.
    private func take(_ byteCount: Int) -> Int {
        answerByteCount += byteCount
        return answerByteCount <= WebhookLimits.answerByteCountMaximum ? byteCount : 0
    }

    func result(_ code: CURLcode) -> AttemptResult {
        let isCut = answerByteCount > WebhookLimits.answerByteCountMaximum
        // The head of an answer that is too long has arrived, and says what it means.
        if code == CURLE_OK || code == CURLE_WRITE_ERROR && isCut {
            return .answered(
                status: curl_status(handle),
                retryAfterSeconds: UInt64(clamping: curl_retry_after(handle)))
        }
        if isAddressRefused { return .failed("address-not-allowed") }
        return .failed(String(cString: curl_easy_strerror(code)))
    }
}
