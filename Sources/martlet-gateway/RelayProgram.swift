// What the programs of all relays have in common: signals, the end, and dead letters.

import CommandLineOptions
import Glibc
import Relay

/// A program that runs a relay, `martlet-gateway NAME`.
struct RelayProgram {
    let name: String

    /// Runs the relay until a signal stops it.
    func run(_ relay: (RelayControl) throws(RelayFailure) -> RelayEnd) -> ExitCode {
        let signals = ProgramSignals()
        // A destination may close a connection that is written to.
        signal(SIGPIPE, SIG_IGN)
        // A record that reaches the limit of a file's size is a full disk.
        signal(SIGXFSZ, SIG_IGN)
        let control = RelayControl()
        signals.receive(
            reload: nil, report: { control.logTotals() }, stop: { control.drain() })
        do throws(RelayFailure) {
            switch try relay(control) {
            case .stopped: return .success
            case .refused(let reason): return fail(reason, .notConnected)
            }
        } catch {
            switch error {
            case .record(let failure): return fail("\(failure)", .storeUnusable)
            case .client(let failure): return fail("\(failure)", .failure)
            case .noThread: return fail("no thread is available", .failure)
            }
        }
    }

    /// Prints lines about the record.
    func print(_ lines: () throws(RecordFailure) -> [String]) -> ExitCode {
        do throws(RecordFailure) {
            for line in try lines() { StandardStream.output.print(line) }
            return .success
        } catch {
            return fail("\(error)", .storeUnusable)
        }
    }

    /// Asks the relay to send dead letters again.
    ///
    /// - Parameters:
    ///   - text: the number of one, or `all`.
    ///   - missing: what is said if there is none.
    ///   - request: makes the request; nil stands for all. Its result is how many there are, or nil
    ///     if there is none.
    func resend(
        _ text: String, missing: String, _ request: (UInt64?) throws(RecordFailure) -> Int?
    ) throws(UsageError) -> ExitCode {
        let number = UInt64(text)
        guard text == "all" || number != nil else {
            throw UsageError("--resend must be the number of a dead letter, or all")
        }
        do throws(RecordFailure) {
            guard let count = try request(number) else {
                return fail(missing, .failure)
            }
            StandardStream.output.print("requested=\(count)")
            return .success
        } catch {
            return fail("\(error)", .storeUnusable)
        }
    }

    private func fail(_ text: String, _ code: ExitCode) -> ExitCode {
        StandardStream.error.print("martlet-gateway \(name): \(text)")
        return code
    }
}
