//! Runs long work without blocking the other tasks of its thread.

use tokio::runtime::{Handle, RuntimeFlavor};

/// From this size on, work takes long: a few hundred thousand bytes are read, hashed, or written as JSON in a
/// moment.
const LONG_BYTES: usize = 256 * 1024;

/// Runs work on a whole tree, or on a disk that may be slow. First, the runtime's thread hands its other
/// tasks to another thread: it may be the one that waits for messages and timers, and then not even a heartbeat
/// would go out before the work is done. Unlike work on another thread, this work never continues after its
/// caller gave up.
pub fn at_length<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Runs work on a text of `bytes` bytes. Work on a short text ends before other tasks could move.
pub fn by_length<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LONG_BYTES {
        work()
    } else {
        at_length(work)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// On a runtime's only thread, runs work that ends as soon as another task has run.
    fn runs_beside(work: impl FnOnce(&mut dyn FnMut() -> bool) -> bool + Send + 'static) -> bool {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (beat, beaten) = mpsc::channel();
        let task = async move {
            tokio::spawn(async move { beat.send(()) });
            work(&mut || beaten.recv_timeout(Duration::from_secs(60)).is_ok())
        };
        runtime.block_on(runtime.spawn(task)).unwrap()
    }

    #[test]
    fn other_tasks_run_during_long_work() {
        assert!(runs_beside(|beaten| at_length(beaten)));
        assert!(runs_beside(|beaten| by_length(LONG_BYTES, beaten)));
    }

    #[test]
    fn work_also_runs_without_another_thread() {
        let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(async { at_length(|| 1) }), 1);
        assert_eq!(at_length(|| 1), 1);
        assert_eq!(by_length(0, || 1), 1);
    }
}
