// Which app a request concerns: the shard that has the app executes it.

extension AdministrationCommand {
    /// The app that the request names; nil for a request about the whole broker.
    public var app: String? {
        switch self {
        case .createApp(let request): request.app
        case .showApp(let request): request.app
        case .setAppRights(let request): request.app
        case .deleteApp(let request): request.app
        case .explainRights(let request): request.app
        case .addAppKey(let request): request.app
        case .listAppKeys(let request): request.app
        case .revokeAppKey(let request): request.app
        case .addUser(let request): request.app
        case .listUsers(let request): request.app
        case .showUser(let request): request.app
        case .deleteUser(let request): request.app
        case .sendMessage(let request): request.app
        case .recallMessage(let request): request.app
        case .replaceMessage(let request): request.app
        case .mintTokens(let request): request.app
        case .listTokens(let request): request.selection.app
        case .revokeTokens(let request): request.selection.app
        case .setPassword(let request): request.app
        case .importPasswords(let request): request.app
        case .listPasswords(let request): request.app
        case .expirePassword(let request): request.app
        case .revokePassword(let request): request.app
        case .listSessions(let request): request.selection.app
        case .importSession(let request): request.app
        case .kickSessions(let request): request.selection.app
        case .deleteSessions(let request): request.selection.app
        case .showOfflineQueue(let request): request.app
        case .listQueueMessages(let request): request.app
        case .dropQueueMessage(let request): request.app
        case .listConversations(let request): request.app
        case .listHistory(let request): request.app
        case .listKeptTopics(let request): request.app
        case .removeFromHistory(let request): request.app
        case .markConversation(let request): request.app
        case .reportApplied(let request): request.app
        case .showReceipts(let request): request.app
        case .purgeQueues(let request): request.selection.app
        case .setWakeTarget(let request): request.app
        case .listWakeTargets(let request): request.app
        case .removeWakeTarget(let request): request.app
        case .testWake(let request): request.app
        case .listWakeLog(let request): request.app
        case .setWakeTemplate(let request): request.app
        case .listWakeTemplates(let request): request.app
        case .removeWakeTemplate(let request): request.app
        case .tryWakeTemplate(let request): request.app
        case .listRetained(let request): request.app
        case .showRetained(let request): request.app
        case .deleteRetained(let request): request.app
        case .createGroup(let request): request.app
        case .listGroups(let request): request.app
        case .showGroup(let request): request.app
        case .changeMember(let request): request.app
        case .changeGroup(let request): request.app
        case .deleteGroup(let request): request.app
        case .startTrace(let request): request.app
        case .listApps, .backUpStore, .showBackup, .readStatistics, .readActivity, .listListeners,
            .listRefusals, .listLogLines, .reloadConfiguration, .setLogLevel, .listTraces,
            .readTrace, .stopTrace, .addOperator, .listOperators, .revokeOperator, .makeLoginLink,
            .showCluster, .stepDown, .showSelf:
            nil
        }
    }
}
