// The OpenAPI document: each operation is in it once, with its members, and nothing else is.

import Foundation
import Testing

@testable import Administration

@Suite("The OpenAPI document")
struct OpenAPIDocumentTests {
    private typealias Object = [String: Any]

    private let document: Object

    init() throws {
        let value = try JSONSerialization.jsonObject(with: Data(OpenAPIDocument.json))
        document = try #require(value as? [String: Any])
    }

    /// The operations of the document by method and path.
    private func operations() throws -> [String: Object] {
        var found: [String: Object] = [:]
        for (path, methods) in try #require(document["paths"] as? [String: Object]) {
            for (method, operation) in methods {
                found["\(method.uppercased()) \(path)"] = try #require(operation as? Object)
            }
        }
        return found
    }

    @Test func `has the operations of the table and no others`() throws {
        let table = APIOperation.all.map { "\($0.method.rawValue) \($0.path)" }
        // Those that stand for logins are no operations.
        let streams = ["GET /events", "GET /socket"]
        #expect(try operations().keys.sorted() == (table + streams).sorted())
        #expect(document["openapi"] as? String == "3.1.0")
        let servers = try #require(document["servers"] as? [Object])
        #expect(servers.first?["url"] as? String == APIOperation.root)
    }

    @Test func `has the members, roles and statuses of each operation, and no others`() throws {
        let operations = try operations()
        for row in APIOperation.all {
            let operation = try #require(operations["\(row.method.rawValue) \(row.path)"])
            #expect(operation["summary"] as? String == row.summary)
            let role = operation["x-martlet-role"] as? String
            #expect(role == (row.needsRole ? row.role.rawValue : nil))
            let security = try #require(operation["security"] as? [Object])
            #expect(security.flatMap(\.keys) == row.serves.map(\.rawValue))
            let responses = try #require(operation["responses"] as? Object)
            let early: Set<String> = row.isAnsweredEarly ? ["202"] : []
            #expect(Set(responses.keys) == early.union(["\(row.status)", "default"]))
            let parameters = try #require(operation["parameters"] as? [Object]).map {
                let isRequired = $0["required"] as? Bool
                return "\($0["in"] ?? "") \($0["name"] ?? "") \(isRequired == true)"
            }
            let expected =
                (row.members.filter { $0.place != .body } + row.payloadMembers).map {
                    "\($0.place.rawValue) \($0.name) \($0.isRequired)"
                } + Self.conditions(of: row)
                + (row.takesActingUser ? ["header Martlet-User false"] : [])
                + (row.takesIdempotencyKey ? ["header Idempotency-Key false"] : [])
            #expect(parameters.sorted() == expected.sorted())
            let body = row.members.filter { $0.place == .body }
            let content = (operation["requestBody"] as? Object)?["content"] as? Object
            let schema = (content?["application/json"] as? Object)?["schema"] as? Object
            #expect((schema == nil) == body.isEmpty)
            #expect((content?["*/*"] == nil) == row.payloadMembers.isEmpty)
            guard let schema else { continue }
            let properties = try #require(schema["properties"] as? Object)
            #expect(properties.keys.sorted() == body.map(\.name).sorted())
            #expect(
                (schema["required"] as? [String])?.sorted()
                    == body.filter(\.isRequired).map(\.name).sorted())
            #expect(schema["additionalProperties"] as? Bool == false)
            for member in body {
                let forms = (properties[member.name] as? Object)?["anyOf"] as? [Object]
                // A content may have null for what it leaves out.
                let allowsNull = forms?.contains { $0["type"] as? String == "null" } ?? false
                #expect(allowsNull == !member.isRequired, "\(member.name)")
            }
        }
    }

    /// The parameters of a list's conditions.
    private static func conditions(of operation: APIOperation) -> [String] {
        guard let list = operation.list else { return [] }
        let own = operation.members.filter { $0.place == .query }.map(\.name)
        let names = list.fields.flatMap { field -> [String] in
            let comparisons =
                switch field.form {
                case .text: ["eq", "ne", "in", "prefix"]
                case .number: ["eq", "ne", "in", "lt", "lte", "gt", "gte"]
                case .boolean: ["eq", "ne"]
                }
            return (own.contains(field.name) ? [] : [field.name])
                + comparisons.map { "\(field.name)[\($0)]" }
        }
        return (["count"] + names).map { "query \($0) false" }
    }

    /// The names of fields in the code that reads heads.
    private func readFields() throws -> Set<String> {
        let file = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources/WireFormat/Web/HTTPRequestHead+Parsing.swift")
        let text = try String(contentsOf: file, encoding: .utf8)
        let pattern = #/case \d+ where name\.isEqual\(ignoringCase: "([^"]+)"\)/#
        return Set(text.matches(of: pattern).map { String($0.1) })
    }

    @Test func `has every field that the broker reads, and no others`() throws {
        let read = try readFields()
        #expect(read.count >= 18 && read.isSuperset(of: ["host", "idempotency-key"]), "\(read)")
        var described: Set<String> = []
        for operation in try operations().values {
            for parameter in operation["parameters"] as? [Object] ?? []
            where parameter["in"] as? String == "header" {
                described.insert((parameter["name"] as? String ?? "").lowercased())
                #expect((parameter["description"] as? String)?.isEmpty == false)
            }
            // OpenAPI describes these two otherwise (OpenAPI 3.1, 4.8.12).
            if operation["requestBody"] != nil { described.insert("content-type") }
            if operation["security"] != nil { described.insert("authorization") }
        }
        #expect(described.count >= 4, "\(described)")
        let common = try #require(document["x-martlet-fields"] as? [String: String])
        #expect(common.values.allSatisfy { !$0.isEmpty })
        let names = Set(common.keys.map { $0.lowercased() })
        #expect(names.isDisjoint(with: described))
        #expect(names.union(described) == read)
    }

    @Test func `has a name for each operation, and the members of a problem`() throws {
        let names = try operations().values.compactMap { $0["operationId"] as? String }
        #expect(Set(names).count == APIOperation.all.count + 2)
        #expect(names.contains("token-mint") && names.contains("group-change-meta-put"))
        let components = try #require(document["components"] as? Object)
        let schemes = try #require(components["securitySchemes"] as? [String: Object])
        #expect(Set(schemes.keys) == Set(APIPrincipal.Kind.allCases.map(\.rawValue)))
        #expect(schemes.values.allSatisfy { $0["scheme"] as? String == "bearer" })
        let schemas = try #require(components["schemas"] as? Object)
        let problem = try #require(schemas["Problem"] as? Object)
        let sample = APIProblem(
            title: "", status: 400, detail: "", code: APIProblem.Code(number: 0x80, name: ""))
        let members = try #require(
            try JSONSerialization.jsonObject(with: Data(sample.bytes)) as? Object)
        #expect((problem["required"] as? [String])?.sorted() == members.keys.sorted())
        #expect((problem["properties"] as? Object)?.keys.sorted() == members.keys.sorted())
    }
}
