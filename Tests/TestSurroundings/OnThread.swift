// Runs blocking code of a test on a thread of its own, so that it keeps no thread of the tests'.

import Foundation

/// Runs a body that blocks on a thread of its own, as a part of the test's task.
package func onThread<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
) async throws -> Value {
    try await withTaskExecutorPreference(ThreadExecutor()) { try body() }
}

/// Runs each job on a new thread.
private final class ThreadExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread { job.runSynchronously(on: self.asUnownedTaskExecutor()) }.start()
    }
}
