//! Terminals for a session without mounts of its own. Landlock lets it open `/dev/ptmx`, which creates a
//! terminal, but nothing in `/dev/pts`, which also contains other people's terminals. A program requests the
//! other end of its terminal through the first end (`TIOCGPTPEER`, as in glibc's `openpty`). The kernel
//! forwards that call to the worker (seccomp), which opens only that other end.
//!
//! Programs that open the other end by its path (musl and Go) are refused.
#![allow(unsafe_code)] // No library makes these calls.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;

use libc::{c_long, c_void, sock_filter};

/// Devices that such a session may open: one creates terminals, the other is the process's own.
pub(super) const TERMINALS: [&str; 2] = ["/dev/ptmx", "/dev/tty"];

/// Space for one descriptor in a message, with the kernel's alignment. Words.
const ROOM: usize = 4;

/// The child's end: forwards its terminal calls.
pub(super) struct CallSender {
    child: UnixStream,
}

/// The worker's end: receives terminal calls.
pub(super) struct CallReceiver {
    worker: UnixStream,
}

/// Both ends of the connection between a child and its worker.
pub(super) fn pair() -> io::Result<(CallSender, CallReceiver)> {
    let (child, worker) = UnixStream::pair()?;
    Ok((CallSender { child }, CallReceiver { worker }))
}

impl CallSender {
    /// Forwards the terminal calls of this process and its later children. Only makes system calls.
    pub fn begin(&self) -> io::Result<()> {
        let filter = filter();
        let program = libc::sock_fprog {
            len: libc::c_ushort::try_from(filter.len()).unwrap_or_default(),
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the program is read by the call, which writes nothing.
        let calls = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            )
        };
        let mut room = [0_u64; ROOM];
        let (mut byte, mut part) = (0_u8, None);
        let mut message = message(&mut byte, &mut part, &mut room);
        // Sends no listener if the worker itself is confined like this, or if the kernel is too old.
        let calls = done(calls).ok();
        // SAFETY: just created here, and owned by nobody else.
        let calls = calls.map(|calls| unsafe { OwnedFd::from_raw_fd(calls as RawFd) });
        match &calls {
            // SAFETY: the message has room for one descriptor.
            Some(calls) => unsafe {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(header)
                    .cast::<RawFd>()
                    .write_unaligned(calls.as_raw_fd());
            },
            None => message.msg_controllen = 0,
        }
        // SAFETY: all that the message points to lives until the end.
        done(unsafe { libc::sendmsg(self.child.as_raw_fd(), &raw const message, 0) } as c_long)?;
        Ok(())
    }
}

impl CallReceiver {
    /// Answers the terminal calls of a child until all its processes are gone.
    pub fn serve(self) -> io::Result<()> {
        let mut room = [0_u64; ROOM];
        let (mut byte, mut part) = (0_u8, None);
        let mut message = message(&mut byte, &mut part, &mut room);
        // SAFETY: as above; the received descriptor is this process's own.
        let calls = unsafe {
            done(libc::recvmsg(self.worker.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) as c_long)?;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            if header.is_null() {
                return Ok(());
            }
            OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned())
        };
        let thread = std::thread::Builder::new().name("terminals".to_owned());
        thread.spawn(move || while serve_call(&calls).is_ok() {})?;
        Ok(())
    }
}

/// A message of one byte and a descriptor.
fn message(byte: &mut u8, part: &mut Option<libc::iovec>, room: &mut [u64; ROOM]) -> libc::msghdr {
    let part = part.insert(libc::iovec {
        iov_base: (&raw mut *byte).cast::<c_void>(),
        iov_len: 1,
    });
    // SAFETY: numbers and pointers, for which all zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    // SAFETY: only counts.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    message
}

/// Waits for a call and answers it. An error ends the loop.
fn serve_call(calls: &OwnedFd) -> io::Result<()> {
    let mut wait = libc::pollfd {
        fd: calls.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, as declared.
    if let Err(error) = done(unsafe { libc::poll(&raw mut wait, 1, -1) }.into()) {
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        };
    }
    if wait.revents & libc::POLLIN == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: numbers, for which all zero is a value; the kernel wants them zero.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: a structure of the kind that the request fills.
    if done(
        unsafe {
            libc::ioctl(
                calls.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV as _,
                &raw mut call,
            )
        }
        .into(),
    )
    .is_err()
    {
        // The caller is gone already.
        return Ok(());
    }
    let flags = call.data.args[2] as i32;
    let opened = other_end(call.pid, call.data.args[0] as RawFd, flags);
    let refused = match opened {
        Ok(file) => {
            let given = libc::seccomp_notif_addfd {
                id: call.id,
                flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
                srcfd: file.as_raw_fd() as u32,
                newfd: 0,
                newfd_flags: (flags & libc::O_CLOEXEC) as u32,
            };
            // SAFETY: a structure of the kind that the request reads. It fails if another process now has the caller's id.
            done(
                unsafe {
                    libc::ioctl(
                        calls.as_raw_fd(),
                        libc::SECCOMP_IOCTL_NOTIF_ADDFD as _,
                        &raw const given,
                    )
                }
                .into(),
            )
            .err()
        }
        Err(error) => Some(error),
    };
    if let Some(error) = refused {
        let answer = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: -error.raw_os_error().unwrap_or(libc::EACCES),
            flags: 0,
        };
        // SAFETY: as above.
        unsafe {
            libc::ioctl(
                calls.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND as _,
                &raw const answer,
            )
        };
    }
    Ok(())
}

/// The other end of a terminal whose first end a process has open. Other files have no terminal number.
fn other_end(pid: u32, first: RawFd, flags: i32) -> io::Result<File> {
    let about = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{first}"))?;
    let number = about.lines().find_map(|line| line.strip_prefix("tty-index:"));
    let number: Option<u32> = number.and_then(|number| number.trim().parse().ok());
    let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTTY))?;
    let access = flags & libc::O_ACCMODE;
    std::fs::OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .custom_flags(libc::O_NOCTTY | flags & libc::O_NONBLOCK)
        .open(format!("/dev/pts/{number}"))
}

/// Forwards `ioctl(…, TIOCGPTPEER, …)`. 32-bit programs get no terminals.
fn filter() -> [sock_filter; 8] {
    const LOAD: u16 = 0x20;
    const IS: u16 = 0x15;
    const ANSWER: u16 = 0x06;
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    [
        step(LOAD, 4, 0, 0),
        step(IS, ARCH, 0, 4),
        step(LOAD, 0, 0, 0),
        step(IS, libc::SYS_ioctl as u32, 0, 2),
        step(LOAD, 24, 0, 0),
        step(IS, libc::TIOCGPTPEER as u32, 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(ANSWER, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
    ]
}

/// The kernel's name of this processor's own ABI (`AUDIT_ARCH_…`).
const ARCH: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0xc000_00f3
};

fn done(answer: c_long) -> io::Result<c_long> {
    match answer {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}
