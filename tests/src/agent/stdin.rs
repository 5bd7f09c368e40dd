//! The agent's only reader of standard input. It can be closed while a read waits, and its end can be
//! ignored.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::Stream;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Lines that were read and not yet taken.
const LINES_WAITING: usize = 64;
const READ_SIZE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) struct Stdin {
    /// Dropping this wakes the reader, which then closes the descriptor.
    open: Arc<Mutex<Option<io::PipeWriter>>>,
    closed: CancellationToken,
    ignore_eof: Arc<AtomicBool>,
}

impl Stdin {
    /// Starts the reader's thread. When the input ends, the stream of lines ends and `ended` is cancelled.
    /// If the input was closed from here, or its end is ignored, the stream only stays silent.
    pub(super) fn start(
        ended: CancellationToken,
        ignore_eof: bool,
    ) -> io::Result<(Self, impl Stream<Item = io::Result<String>> + Send + 'static)> {
        let (closing, open) = io::pipe()?;
        let (lines, taken) = mpsc::channel(LINES_WAITING);
        let stdin = Self {
            open: Arc::new(Mutex::new(Some(open))),
            closed: CancellationToken::new(),
            ignore_eof: Arc::new(AtomicBool::new(ignore_eof)),
        };
        let handle = stdin.clone();
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            let by_us = read_lines(&closing, &lines).is_err();
            if by_us {
                handle.release();
            } else if !handle.ignores_eof() {
                ended.cancel();
                return;
            }
            // The end of the channel would mean the end of the input, so the thread stays and keeps the
            // channel open.
            loop {
                std::thread::park();
            }
        })?;
        let stream = futures::stream::unfold(taken, async |mut taken| {
            let line = taken.recv().await?;
            Some((Ok(line), taken))
        });
        Ok((stdin, Box::pin(stream)))
    }

    /// From now on, ignores the end of the input.
    pub(super) fn ignore_eof(&self) {
        self.ignore_eof.store(true, Ordering::Relaxed);
    }

    /// Whether the agent outlives a disconnect of its client.
    pub(super) fn ignores_eof(&self) -> bool {
        self.ignore_eof.load(Ordering::Relaxed)
    }

    /// Closes the pipe; once this returns, its writer gets EPIPE.
    pub(super) async fn close(&self) {
        drop(self.open.lock().take());
        self.closed.cancelled().await;
    }

    /// Keeps the descriptor's number in use, so that no later file becomes standard input.
    fn release(&self) {
        if let Ok(null) = std::fs::File::open("/dev/null") {
            let _ = nix::unistd::dup2_stdin(null);
        }
        self.closed.cancel();
    }
}

/// The reader was asked to close.
struct CloseRequested;

/// Reads until the input ends; invalid UTF-8 is replaced.
fn read_lines(closing: &io::PipeReader, lines: &mpsc::Sender<String>) -> Result<(), CloseRequested> {
    let stdin = io::stdin();
    let (mut partial, mut buffer) = (Vec::new(), vec![0; READ_SIZE_BYTES]);
    loop {
        let mut waiting =
            [stdin.as_fd(), closing.as_fd()].map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(_) => return Ok(()),
        }
        if waiting[1].any().unwrap_or(true) {
            return Err(CloseRequested);
        }
        let size_bytes = match nix::unistd::read(stdin.as_fd(), &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(size_bytes) => size_bytes,
            Err(Errno::EINTR | Errno::EAGAIN) => continue,
            Err(_) => return Ok(()),
        };
        for part in buffer[..size_bytes].split_inclusive(|byte| *byte == b'\n') {
            partial.extend_from_slice(part);
            if partial.ends_with(b"\n") {
                partial.pop();
                let line = String::from_utf8_lossy(&partial).into_owned();
                partial.clear();
                if lines.blocking_send(line).is_err() {
                    return Ok(());
                }
            }
        }
    }
}
