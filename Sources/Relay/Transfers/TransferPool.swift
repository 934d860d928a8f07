// The requests that are under way: libcurl's multi interface on the relay's thread. It opens
// connections only to permitted addresses, follows no redirects and uses no proxy.

import CCurl
import Glibc

/// What wakes the relay's thread while it waits for sockets.
package final class RelayWaker: @unchecked Sendable {
    /// libcurl permits `curl_multi_wakeup` on every thread, and nothing else.
    let multi: curl_multi_handle

    package init() {
        curl_global_init(Int(CURL_GLOBAL_ALL))
        guard let multi = curl_multi_init() else {
            preconditionFailure("libcurl \(String(cString: curl_version())) gives no handle")
        }
        self.multi = multi
    }

    /// Ends the present or the next wait.
    package func wake() { curl_multi_wakeup(multi) }

    deinit { curl_multi_cleanup(multi) }
}

package final class TransferPool {
    /// A request with its result.
    package struct Completion {
        package let tag: UInt64
        package let result: AttemptResult
        /// The first bytes of the answer's content.
        package let answer: [UInt8]
        /// The time of the answer by the server's clock, in Unix seconds; 0 for none.
        package let serverSeconds: Int
        /// Whether there was a connection on which the request could be sent.
        package let wasConnected: Bool
    }

    private let waker: RelayWaker
    private let rules: AddressRules
    private var running: [UInt64: Transfer] = [:]
    private var idle: [Transfer] = []
    private var answeredCount: UInt64 = 0
    /// By socket of a connection with several requests: how many had been answered in all when one
    /// of its own was.
    private var lastAnswers: [Int32: UInt64] = [:]

    /// - Parameters:
    ///   - rules: where requests may go whose address the operator did not choose.
    ///   - requestsMaximum: connections that are kept for further requests.
    package init(_ waker: RelayWaker, rules: AddressRules, requestsMaximum: Int) {
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
    package func begin(_ request: TransferRequest, tag: UInt64) {
        precondition(running[tag] == nil, "request \(tag) is under way")
        let transfer = idle.popLast() ?? Transfer(rules)
        transfer.prepare(request, tag: tag, answered: answeredCount)
        running[tag] = transfer
        let code = curl_multi_add_handle(waker.multi, transfer.handle)
        precondition(code == CURLM_OK, "curl_multi_add_handle: \(code.rawValue)")
    }

    /// Continues all requests as far as they can.
    package func perform() -> [Completion] {
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
            // libcurl tells the socket only of a handle that it still has.
            if transfer.isMultiplexed { judge(transfer, code) }
            curl_multi_remove_handle(waker.multi, handle)
            running[transfer.tag] = nil
            completions.append(
                Completion(
                    tag: transfer.tag, result: transfer.result(code), answer: transfer.answer,
                    serverSeconds: transfer.serverSeconds, wasConnected: transfer.wasConnected))
            transfer.forget()
            // Few are kept: most destinations are quiet most of the time.
            if idle.count < RelayLimits.idleTransfersMaximum { idle.append(transfer) }
        }
        return completions
    }

    /// Notes that a connection with several requests has answered; or closes it, if it has answered
    /// none since one began whose time is over. libcurl would use it for the next request.
    private func judge(_ transfer: Transfer, _ code: CURLcode) {
        let descriptor = Int32(curl_active_socket(transfer.handle))
        guard descriptor >= 0 else { return }
        if code == CURLE_OK {
            answeredCount += 1
            if lastAnswers.count >= RelayLimits.connectionsRememberedMaximum { lastAnswers = [:] }
            lastAnswers[descriptor] = answeredCount
        } else if code == CURLE_OPERATION_TIMEDOUT,
            lastAnswers[descriptor, default: 0] <= transfer.answeredBefore
        {
            shutdown(descriptor, Int32(SHUT_RDWR))
        }
    }

    /// Waits until a socket is ready, the waker is called, or the time is over.
    package func wait(milliseconds: UInt64) {
        curl_multi_poll(waker.multi, nil, 0, Int32(clamping: milliseconds), nil)
    }
}
