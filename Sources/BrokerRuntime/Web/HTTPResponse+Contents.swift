// The responses of web listeners by what they contain.

import Administration
import BrokerTerms
import Dashboard
import Primitives
import WireFormat

extension HTTPResponse {
    /// A status with a line that says why.
    static func text(_ status: HTTPStatus, _ line: StaticString) -> HTTPResponse {
        HTTPResponse(
            status, contentType: "text/plain; charset=utf-8", content: Array("\(line)\n".utf8))
    }

    /// Problem details (RFC 9457).
    static func problem(
        _ status: HTTPStatus, _ detail: String, reason: ReasonCode
    ) -> HTTPResponse {
        let problem = APIProblem(
            title: "\(status.phrase)", status: status.rawValue, detail: detail,
            code: APIProblem.Code(number: reason.rawValue, name: "\(reason.name)"))
        return HTTPResponse(
            status, contentType: APIProblem.contentType, content: problem.bytes)
    }

    /// Whether the broker is well, and what is not; nothing else, because strangers may ask.
    static func health(_ findings: BrokerHealth.Finding) -> HTTPResponse {
        let status: StaticString = findings.isEmpty ? "ok" : "unavailable"
        var writer = JSONWriter()
        writer.write("status", status)
        writer.write("reasons") { (list: inout JSONList) in
            for (finding, name) in BrokerHealth.Finding.names where findings.contains(finding) {
                list.append(Array(name.utf8).span.bytes)
            }
        }
        return HTTPResponse(
            findings.isEmpty ? .ok : .unavailable, contentType: "application/json",
            content: writer.end() + [UInt8(ascii: "\n")])
    }

    static func dashboard(_ file: DashboardFile) -> HTTPResponse {
        var response = HTTPResponse(.ok, contentType: file.contentType, content: file.content)
        response.fields = DashboardFile.fields
        return response
    }

    /// The metrics.
    static func metrics(_ text: [UInt8], as form: PrometheusText.Form) -> HTTPResponse {
        var response = HTTPResponse(.ok, contentType: form.contentType, content: text)
        response.fields = ["Vary: Accept"]
        return response
    }
}
