// The broker's program, from its arguments to its exit code.

import BrokerRuntime
import CommandLineOptions
import Configuration
import Glibc

enum MartletdProgram {
    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        let options: ParsedOptions<MartletdOption>
        do throws(UsageError) {
            // As `martlet help`.
            let words = arguments == ["help"] ? ["--help"] : arguments
            switch try OptionParser<MartletdOption>.parse(words) {
            case .help:
                StandardStream.output.print(MartletdOption.helpPage)
                return .success
            case .run(let parsed): options = parsed
            }
        } catch {
            StandardStream.error.print("martletd: \(error.message)\nSee martletd --help")
            return .usage
        }
        if options.has(.version) {
            StandardStream.output.print("martletd \(ProgramVersion.text)")
            return .success
        }
        let needs: [(MartletdOption, MartletdOption)] = [
            (.repair, .verifyStore), (.dryRun, .repair),
        ]
        for (option, needed) in needs
        where options.has(option) && !options.has(needed) {
            StandardStream.error.print(
                "martletd: --\(option.rawValue) needs --\(needed.rawValue)\nSee martletd --help")
            return .usage
        }
        let configuration: LoadedConfiguration
        do throws(ConfigurationError) {
            configuration = try ConfigurationFile.load(
                path: options[.config], overrides: options.overrides)
        } catch {
            StandardStream.error.print("\(error)")
            return .usage
        }
        if options.has(.checkConfig) { return check(configuration.settings, options) }
        if options.has(.printConfig) {
            StandardStream.output.print(configuration.printed)
            return .success
        }
        if options.has(.verifyStore) { return verifyStore(configuration.settings, options) }
        if let backup = options[.restore] { return restore(backup, configuration.settings) }
        if options.has(.foundCluster) || options.has(.copyNode) {
            return prepareCluster(configuration.settings, copyingTo: options[.copyNode])
        }
        return serve(configuration, options)
    }

    private static func check(
        _ settings: BrokerSettings, _ options: ParsedOptions<MartletdOption>
    ) -> ExitCode {
        BrokerServer.prepareProcess()
        do throws(StartError) {
            // The start creates the certificates for development.
            if !options.has(.dev) {
                for warning in try ConfigurationCheck.run(settings) {
                    StandardStream.error.print("martletd: \(warning)")
                }
            }
        } catch {
            StandardStream.error.print("martletd: \(error)")
            return .usage
        }
        StandardStream.output.print("the configuration is valid")
        return .success
    }

    private static func verifyStore(
        _ settings: BrokerSettings, _ options: ParsedOptions<MartletdOption>
    ) -> ExitCode {
        let mode: RepairMode =
            options.has(.dryRun) ? .dryRun : options.has(.repair) ? .repair : .none
        do throws(StartError) {
            let isTerminal = isatty(StandardStream.error.rawValue) == 1
            let report = try StoreVerification.run(
                settings, mode, showing: isTerminal ? showProgress : nil)
            if isTerminal { rewriteLine("") }
            StandardStream.output.print(report.text)
            return report.isSound ? .success : .storeUnusable
        } catch {
            StandardStream.error.print("martletd: \(error)")
            return ExitCode(error.kind)
        }
    }

    @Sendable private static func showProgress(_ percent: Int) {
        rewriteLine("\(percent) % of the store checked")
    }

    /// Writes the terminal's line again (ECMA-48, 8.3.41: erase to its end).
    private static func rewriteLine(_ text: String) {
        let line = Array("\r\(text)\u{1B}[K".utf8)
        _ = write(StandardStream.error.rawValue, line, line.count)
    }

    private static func restore(_ backup: String, _ settings: BrokerSettings) -> ExitCode {
        do throws(StartError) {
            let findings = try StoreRestoration.run(settings, from: backup)
            for finding in findings {
                StandardStream.error.print("martletd: damaged in the backup: \(finding)")
            }
            StandardStream.output.print("\(settings.dataDirectory) has the store of \(backup)")
            return .success
        } catch {
            StandardStream.error.print("martletd: \(error)")
            return ExitCode(error.kind)
        }
    }

    /// Founds a cluster, or copies a node's store.
    private static func prepareCluster(
        _ settings: BrokerSettings, copyingTo destination: String?
    ) -> ExitCode {
        do throws(StartError) {
            if let destination {
                StandardStream.output.print(try ClusterFounding.copy(settings, to: destination))
            } else {
                StandardStream.output.print(
                    try ClusterFounding.run(settings, opener: clusterLogOpener) {
                        StandardStream.error.print("martletd: \($0)")
                    })
            }
            return .success
        } catch {
            StandardStream.error.print("martletd: \(error)")
            return ExitCode(error.kind)
        }
    }

    private static func serve(
        _ configuration: LoadedConfiguration, _ options: ParsedOptions<MartletdOption>
    ) -> ExitCode {
        let settings = configuration.settings
        BrokerServer.prepareProcess()
        var signals = Signals()
        let log = LogWriter(level: settings.log.level, format: settings.log.format)
        do throws(StartError) {
            if settings.cluster.isUsed {
                return try serveCluster(
                    configuration, options, log: log, until: &signals)
            }
            let development = options.has(.dev) ? try DevelopmentSetup(settings) : nil
            let server = try BrokerServer(
                settings, version: ProgramVersion.text, log: log,
                fail: endProcess)
            if let development {
                // Before clients are accepted: the first client needs its app.
                StandardStream.output.print(try development.finish(server))
            }
            server.open()
            server.run(until: &signals, configuration: configuration) {
                () throws(ConfigurationError) in
                try ConfigurationFile.load(path: options[.config], overrides: options.overrides)
            }
            return .success
        } catch {
            StandardStream.error.print("martletd: \(error)")
            return ExitCode(error.kind)
        }
    }
}

extension MartletdProgram {
    /// Ends the process from any thread. Exit handlers of libraries, such as those of OpenSSL,
    /// would free what other threads use; the log has been written.
    private static func endProcess(_ kind: StartError.Kind) -> Never {
        _exit(ExitCode(kind).rawValue)
    }

    private static func serveCluster(
        _ configuration: LoadedConfiguration, _ options: ParsedOptions<MartletdOption>,
        log: LogWriter, until signals: inout Signals
    ) throws(StartError) -> ExitCode {
        guard !options.has(.dev) else {
            throw .cluster("--dev does not go with cluster.servers: see make cluster")
        }
        let end = try ClusterBroker.serve(
            configuration, version: ProgramVersion.text, log: log, opener: clusterLogOpener,
            until: &signals, fail: endProcess
        ) { () throws(ConfigurationError) in
            try ConfigurationFile.load(path: options[.config], overrides: options.overrides)
        }
        switch end {
        case .stopped: return .success
        case .steppedDown: return .deposed
        }
    }
}

extension ExitCode {
    /// The exit code for an error that prevented the start or ended the broker.
    fileprivate init(_ kind: StartError.Kind) {
        switch kind {
        case .configuration: self = .usage
        case .addressInUse: self = .addressInUse
        case .store: self = .storeUnusable
        case .deposed: self = .deposed
        case .other: self = .failure
        }
    }
}
