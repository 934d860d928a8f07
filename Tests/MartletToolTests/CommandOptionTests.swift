// Commands that share the rules of their options refuse those of the others.

import CommandLineOptions
import Testing

@testable import martlet

@Suite("The options of a command")
struct CommandOptionTests {
    /// Expects that a command refuses every option of its rules, except these and those that name
    /// the broker.
    private func expectRefusals<Rules: OptionRules>(
        by command: Command, _ rules: Rules.Type, except own: [String],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let accepted = Set(own).union(["data", "server", "ca", "token"])
        for rule in Rules.allCases where !accepted.contains(rule.rawValue) {
            let word = rule.shape == .flag ? "--\(rule.rawValue)" : "--\(rule.rawValue)=1"
            await #expect(
                throws: UsageError("this command has no option --\(rule.rawValue)"),
                "martlet \(command.rawValue) \(word)", sourceLocation: sourceLocation
            ) { try await MartletProgram.run(command, [word]) }
        }
        // An unknown word is refused only after all options have been accepted.
        for rule in Rules.allCases where accepted.contains(rule.rawValue) {
            let word = rule.shape == .flag ? "--\(rule.rawValue)" : "--\(rule.rawValue)=1"
            await #expect(
                throws: UsageError("unknown option --no-such-option"),
                "martlet \(command.rawValue) \(word)", sourceLocation: sourceLocation
            ) { try await MartletProgram.run(command, [word, "--no-such-option"]) }
        }
    }

    @Test func `are those of apps and users`() async {
        await expectRefusals(by: .appCreate, AppOption.self, except: ["json"])
        await expectRefusals(by: .appList, AppOption.self, except: ["json"])
        await expectRefusals(by: .appShow, AppOption.self, except: ["app", "json"])
        await expectRefusals(by: .appRights, AppOption.self, except: ["app", "json"])
        await expectRefusals(by: .userAdd, AppOption.self, except: ["app", "json"])
        await expectRefusals(by: .appKeyList, AppKeyOption.self, except: ["app", "json"])
        await expectRefusals(by: .appKeyRevoke, AppKeyOption.self, except: ["app", "json"])
        await expectRefusals(
            by: .appKeyAdd, AppKeyOption.self, except: ["app", "role", "right", "expires", "json"])
        await expectRefusals(by: .userList, UserOption.self, except: ["app", "limit", "json"])
        await expectRefusals(by: .userShow, UserOption.self, except: ["app", "json"])
    }

    @Test func `are those of tokens and operators`() async {
        let selection = ["app", "id", "user", "device", "batch", "json"]
        await expectRefusals(by: .tokenList, TokenOption.self, except: selection + ["limit"])
        await expectRefusals(by: .tokenRevoke, TokenOption.self, except: selection)
        await expectRefusals(
            by: .operatorAdd, OperatorOption.self, except: ["role", "expires", "json"])
        await expectRefusals(by: .operatorList, OperatorOption.self, except: ["json"])
        await expectRefusals(by: .operatorRevoke, OperatorOption.self, except: ["json"])
    }

    @Test func `are those of sessions, queues and retained messages`() async {
        let selection = ["app", "user", "device", "connected", "away", "older-than", "json"]
        await expectRefusals(by: .sessionList, SessionOption.self, except: selection + ["limit"])
        for command in [Command.sessionKick, .sessionDelete] {
            await expectRefusals(
                by: command, SessionOption.self, except: selection + ["will", "no-will"])
        }
        for command in [Command.sessionShow, .queueShow, .queuePurge] {
            await expectRefusals(by: command, SessionOption.self, except: selection)
        }
        await expectRefusals(by: .queueDrop, QueueOption.self, except: ["app", "device", "json"])
        await expectRefusals(
            by: .historyRemove, HistoryOption.self,
            except: ["app", "user", "with", "group", "topic", "json"])
        await expectRefusals(
            by: .historyTopics, HistoryOption.self, except: ["app", "limit", "json"])
        await expectRefusals(by: .retainedShow, RetainedOption.self, except: ["app", "json"])
        await expectRefusals(by: .retainedDelete, RetainedOption.self, except: ["app", "json"])
        await expectRefusals(
            by: .retainedList, RetainedOption.self, except: ["app", "limit", "json"])
    }

    @Test func `are those of traces and groups`() async {
        await expectRefusals(by: .traceList, TraceOption.self, except: ["json"])
        await expectRefusals(by: .traceStop, TraceOption.self, except: ["json"])
        let common = ["device", "timeout", "app", "json"]
        let groups: [Command] = [
            .groupLeave, .groupKick, .groupBan, .groupList, .groupShow, .groupMeta,
        ]
        for command in groups {
            await expectRefusals(by: command, GroupOption.self, except: common)
        }
        await expectRefusals(by: .groupJoin, GroupOption.self, except: common + ["backlog"])
        await expectRefusals(by: .groupHistory, GroupOption.self, except: common + ["shown"])
        await expectRefusals(by: .groupAllow, GroupOption.self, except: common + ["everybody"])
        await expectRefusals(
            by: .groupCreate, GroupOption.self, except: common + ["owner", "name", "allow", "meta"])
    }
}
