// The pages for operators, embedded in the program. They are static, and use the HTTP API like any
// other client; a browser loads nothing else.

/// A file of the dashboard.
public struct DashboardFile: Sendable {
    public let path: StaticString
    public let contentType: StaticString
    public let content: [UInt8]

    /// All files, the page first.
    public static let all = [
        DashboardFile(
            path: "/", contentType: "text/html; charset=utf-8",
            content: PackageResources.index_html),
        DashboardFile(
            path: "/dashboard.css", contentType: "text/css; charset=utf-8",
            content: PackageResources.dashboard_css),
        script("/api.js", PackageResources.api_js),
        script("/broker.js", PackageResources.broker_js),
        script("/cluster.js", PackageResources.cluster_js),
        script("/content.js", PackageResources.content_js),
        script("/conversations.js", PackageResources.conversations_js),
        script("/credentials.js", PackageResources.credentials_js),
        script("/dashboard.js", PackageResources.dashboard_js),
        script("/devices.js", PackageResources.devices_js),
        script("/elements.js", PackageResources.elements_js),
        script("/messages.js", PackageResources.messages_js),
        script("/navigation.js", PackageResources.navigation_js),
        script("/overview.js", PackageResources.overview_js),
        script("/receipts.js", PackageResources.receipts_js),
        script("/templates.js", PackageResources.templates_js),
        script("/users.js", PackageResources.users_js),
    ]

    private static func script(_ path: StaticString, _ content: [UInt8]) -> DashboardFile {
        DashboardFile(path: path, contentType: "text/javascript; charset=utf-8", content: content)
    }

    /// Header fields of every file. The page loads its own files and asks its own broker, nothing
    /// else (Content Security Policy Level 3); no other page may frame it.
    public static let fields: [StaticString] = [
        """
        Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
        connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'
        """,
        "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
    ]
}
