// The operations of the HTTP API: for each request of an administrator its methods and paths. A
// request without a row does not compile. docs/operating/api.md has the same table.

extension APIOperation {
    /// All operations.
    public static let all = AdministrationCommand.Kind.allCases.flatMap(rows)

    private static func rows(of kind: AdministrationCommand.Kind) -> [APIOperation] {
        switch kind {
        case .createApp: [createApp]
        case .listApps: [listApps]
        case .showApp: [showApp]
        case .setAppRights: [setAppRights]
        case .deleteApp: [deleteApp]
        case .explainRights: [explainRights]
        case .addAppKey: [addAppKey]
        case .listAppKeys: [listAppKeys]
        case .revokeAppKey: [revokeAppKey]
        case .addUser: [addUser]
        case .listUsers: [listUsers]
        case .showUser: [showUser]
        case .deleteUser: [deleteUser]
        case .sendMessage: sendMessage
        case .recallMessage: recallMessage
        case .replaceMessage: replaceMessage
        case .mintTokens: [mintTokens]
        case .listTokens: [listTokens]
        case .revokeTokens: [revokeTokens]
        case .setPassword: [setPassword]
        case .importPasswords: [importPasswords]
        case .listPasswords: [listPasswords]
        case .expirePassword: [expirePassword]
        case .revokePassword: [revokePassword]
        case .listSessions: [listSessions]
        case .importSession: [importSession]
        case .kickSessions: [kickSessions]
        case .deleteSessions: [deleteSessions]
        case .showOfflineQueue: [showOfflineQueue]
        case .listQueueMessages: listQueueMessages
        case .dropQueueMessage: [dropQueueMessage]
        case .listConversations: listConversations
        case .listHistory: listHistory
        case .listKeptTopics: [listKeptTopics]
        case .removeFromHistory: removeFromHistory
        case .markConversation: markConversation
        case .reportApplied: reportApplied
        case .showReceipts: [showReceipts]
        case .purgeQueues: [purgeQueues]
        case .setWakeTarget: setWakeTarget
        case .listWakeTargets: listWakeTargets
        case .removeWakeTarget: removeWakeTarget
        case .testWake: [testWake]
        case .listWakeLog: listWakeLog
        case .setWakeTemplate: [setWakeTemplate]
        case .listWakeTemplates: [listWakeTemplates]
        case .removeWakeTemplate: [removeWakeTemplate]
        case .tryWakeTemplate: [tryWakeTemplate]
        case .listRetained: [listRetained]
        case .showRetained: [showRetained]
        case .deleteRetained: [deleteRetained]
        case .createGroup: [createGroup]
        case .listGroups: [listGroups]
        case .showGroup: showGroup
        case .changeMember: changeMember
        case .changeGroup: changeGroup
        case .deleteGroup: [deleteGroup]
        case .backUpStore: [backUpStore]
        case .showBackup: [showBackup]
        case .readStatistics: [readStatistics]
        case .readActivity: [readActivity]
        case .listListeners: [listListeners]
        case .listRefusals: [listRefusals]
        case .listLogLines: [listLogLines]
        case .reloadConfiguration: [reloadConfiguration]
        case .setLogLevel: [setLogLevel]
        case .startTrace: [startTrace]
        case .listTraces: [listTraces]
        case .readTrace: [readTrace]
        case .stopTrace: [stopTrace]
        case .addOperator: [addOperator]
        case .listOperators: [listOperators]
        case .revokeOperator: [revokeOperator]
        case .makeLoginLink: [makeLoginLink]
        case .showCluster: [showCluster]
        case .stepDown: [stepDown]
        case .showSelf: [showSelf]
        }
    }

    /// Where a change of many sessions or tokens goes on.
    static let continuation = APIMember.query(
        "after", .number(maximum: UInt64(UInt32.max)))
}
