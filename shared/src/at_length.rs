//! Work that takes long without waiting for anything: what else its thread would have done goes on elsewhere meanwhile.

use tokio::runtime::{Handle, RuntimeFlavor};

/// What goes through so many bytes takes long: in a moment, a few hundred thousand are read, hashed, or written as JSON.
const LONG_BYTES: usize = 256 * 1024;

/// Does what goes through a whole tree, or writes to a disk that may be slow. The runtime's thread is given up to others first: it may
/// be the one that waits for messages and timers, so that without this not even a heartbeat would go out until the work is done.
/// Unlike work that is handed to another thread it is never left running by who gave up.
pub fn at_length<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Does what goes through a text of so many bytes. With a short one it is sooner done than others are let go first.
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

    /// On a runtime's only thread, work that ends as soon as another task has run.
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
    fn others_go_on_meanwhile() {
        assert!(runs_beside(|beaten| at_length(beaten)));
        assert!(runs_beside(|beaten| by_length(LONG_BYTES, beaten)));
    }

    #[test]
    fn where_there_is_no_other_thread_it_is_done_all_the_same() {
        let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(async { at_length(|| 1) }), 1);
        assert_eq!(at_length(|| 1), 1);
        assert_eq!(by_length(0, || 1), 1);
    }
}
