//! The seccomp filter of a session: refuses the [`calls`] refused to every session and, under a network
//! policy, sockets other than plain TCP, since Landlock controls only those.

use std::io;
use std::sync::LazyLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::calls::{self, Refusal, Rules, Shared, all, is};
use crate::sandbox::compat_calls;

/// Which sockets a session may create. It may always create sockets with a path, and query the kernel for
/// this machine's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    Local,
    /// Plain TCP, whose ports Landlock controls.
    Tcp,
    /// All internet protocols, in a network of the session's own.
    Own,
}

/// The lowest bits of a socket's type, without its flags.
const TYPE_MASK: u64 = 0xf;

/// Resources that a session without namespaces shares.
const ALL_SHARED: Shared = Shared {
    processes: true,
    ipc: true,
};

/// Whether this machine can filter system calls. Checked once.
pub fn works() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        let tried = std::thread::spawn(|| {
            program(Some(Sockets::Local), ALL_SHARED)
                .and_then(|program| apply(&program).map_err(io::Error::other))
        });
        matches!(tried.join(), Ok(Ok(())))
    });
    *WORKS
}

/// The filter program. It restricts sockets only under a network policy.
///
/// # Errors
/// Fails on a processor without filter support.
pub fn program(sockets: Option<Sockets>, shared: Shared) -> io::Result<BpfProgram> {
    let own = compiled(rules(sockets, shared).map_err(io::Error::other)?)?;
    // Under a socket policy, 32-bit programs are killed; otherwise they run.
    let narrow = match sockets {
        Some(_) => None,
        None => Some(compiled(calls::rules_32_bit(shared).map_err(io::Error::other)?)?),
    };
    Ok(compat_calls::before(narrow).into_iter().chain(own).collect())
}

/// A program that kills callers of any other ABI.
fn compiled(rules: Rules) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

/// Filters the system calls of this thread and all its children from now on.
pub fn apply(program: &BpfProgram) -> Result<(), seccompiler::Error> {
    apply_filter(program)
}

/// Refusal rules by system call. Each rule is a case.
fn rules(sockets: Option<Sockets>, shared: Shared) -> Refusal<Rules> {
    let mut rules = calls::own(shared)?;
    if let Some(sockets) = sockets {
        rules.insert(libc::SYS_socket, socket(sockets)?);
    }
    if sockets == Some(Sockets::Tcp) {
        // Data sent while a connection opens, which Landlock doesn't check.
        let flags_at = [
            (libc::SYS_sendto, 3),
            (libc::SYS_sendmsg, 2),
            (libc::SYS_sendmmsg, 3),
        ];
        for (call, argument) in flags_at {
            let flag = libc::MSG_FASTOPEN.cast_unsigned().into();
            rules.insert(
                call,
                vec![all([is(argument, SeccompCmpOp::MaskedEq(flag), flag)])?],
            );
        }
    }
    Ok(rules)
}

fn socket(sockets: Sockets) -> Refusal<Vec<SeccompRule>> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let number = |number: i32| u64::from(number.cast_unsigned());
    let not = |family: i32| is(0, Ne, number(family));
    let neither_path_nor_list = || [not(libc::AF_UNIX), not(libc::AF_NETLINK)];
    let mut cases = vec![all([
        is(0, Eq, number(libc::AF_NETLINK)),
        is(2, Ne, number(libc::NETLINK_ROUTE)),
    ])?];
    let internet = [not(libc::AF_INET), not(libc::AF_INET6)];
    match sockets {
        Sockets::Local => cases.push(all(neither_path_nor_list())?),
        Sockets::Own => cases.push(all(neither_path_nor_list().into_iter().chain(internet))?),
        Sockets::Tcp => {
            cases.push(all(neither_path_nor_list().into_iter().chain(internet))?);
            for kind in (0..=TYPE_MASK).filter(|kind| *kind != number(libc::SOCK_STREAM)) {
                let kind = is(1, MaskedEq(TYPE_MASK), kind);
                cases.push(all(neither_path_nor_list().into_iter().chain([kind]))?);
            }
            let protocols = [is(2, Ne, 0), is(2, Ne, number(libc::IPPROTO_TCP))];
            cases.push(all(neither_path_nor_list().into_iter().chain(protocols))?);
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Shared = Shared {
        processes: false,
        ipc: false,
    };

    /// The error of a call in a filtered thread; 0 if it is allowed.
    #[allow(unsafe_code)] // No library makes these calls.
    fn asks(number: i64, arguments: [usize; 3]) -> i32 {
        let [a, b, c] = arguments;
        // SAFETY: none of the calls below writes to an address in its arguments.
        match unsafe { libc::syscall(number, a, b, c, 0, 0) } {
            -1 => io::Error::last_os_error().raw_os_error().unwrap_or_default(),
            _ => 0,
        }
    }

    /// Each call has arguments without effect if it is allowed, and expected refusals: with shared processes
    /// and IPC, and with neither shared.
    #[test]
    fn calls_that_reach_other_processes_or_the_kernel_are_refused() {
        let own = std::process::id() as usize;
        // The limits already in force.
        let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE).unwrap();
        let limit = libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        };
        let limit = (&raw const limit) as usize;
        let file_size = libc::RLIMIT_FSIZE as usize;
        let rows = [
            (libc::SYS_keyctl, [0, usize::MAX - 3, 0], true, true),
            (libc::SYS_add_key, [0, 0, 0], true, true),
            (libc::SYS_request_key, [0, 0, 0], true, true),
            (libc::SYS_io_uring_setup, [0, 0, 0], true, true),
            (libc::SYS_io_uring_enter, [usize::MAX, 0, 0], true, true),
            (libc::SYS_io_uring_register, [usize::MAX, 0, 0], true, true),
            (libc::SYS_perf_event_open, [0, 0, 0], true, true),
            (libc::SYS_bpf, [999, 0, 0], true, true),
            (libc::SYS_userfaultfd, [usize::MAX, 0, 0], true, true),
            (libc::SYS_open_by_handle_at, [usize::MAX, 0, 0], true, true),
            (libc::SYS_ioctl, [usize::MAX, 0x5412, 0], true, true),
            (libc::SYS_ioctl, [usize::MAX, 0x541c, 0], true, true),
            (libc::SYS_ioctl, [usize::MAX, 0x5413, 0], false, false),
            (libc::SYS_prlimit64, [own, file_size, limit], true, false),
            (libc::SYS_prlimit64, [own, file_size, 0], false, false),
            (libc::SYS_prlimit64, [0, file_size, 0], false, false),
            (libc::SYS_prlimit64, [0, 10, limit], true, true),
            (libc::SYS_sched_setaffinity, [own, 0, 0], true, false),
            (libc::SYS_sched_setaffinity, [0, 0, 0], false, false),
            (libc::SYS_sched_setscheduler, [own, 99, limit], true, false),
            (libc::SYS_sched_setparam, [own, 0, 0], true, false),
            (libc::SYS_sched_setattr, [own, 0, 0], true, false),
            (libc::SYS_setpriority, [0, own, 0], true, false),
            (libc::SYS_setpriority, [0, 0, 0], false, false),
            (libc::SYS_ioprio_set, [1, own, 99 << 13], true, false),
            (libc::SYS_ioprio_set, [1, 0, 99 << 13], false, false),
            (libc::SYS_shmget, [1, 0, 0], true, false),
            (libc::SYS_semget, [1, usize::MAX, 0], true, false),
            (libc::SYS_msgget, [0x7261_6c70, 0, 0], true, false),
            (libc::SYS_mq_open, [0, 0, 0], true, false),
            (libc::SYS_shmctl, [usize::MAX, 0, 0], true, false),
        ];
        for sockets in [None, Some(Sockets::Local), Some(Sockets::Tcp), Some(Sockets::Own)] {
            for (shared, pick) in [(ALL_SHARED, 0), (APART, 1)] {
                let answers = std::thread::spawn(move || {
                    apply(&program(sockets, shared).unwrap()).unwrap();
                    rows.map(|(number, arguments, ..)| asks(number, arguments))
                });
                for (row, answer) in rows.iter().zip(answers.join().unwrap()) {
                    let refused = [row.2, row.3][pick];
                    assert_eq!(
                        answer == libc::EPERM,
                        refused,
                        "{row:?} {shared:?} {sockets:?}: {answer}"
                    );
                }
            }
        }
    }
}
