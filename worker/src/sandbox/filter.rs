//! System calls that a session may not make (seccomp). The kernel's keys are the user's, whatever of the files is out of reach;
//! whose a process is, it may not hide; and where the network has a policy, Landlock knows TCP alone, and only in its plain form.

use std::collections::BTreeMap;
use std::io;
use std::sync::LazyLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::{brand, narrow};

/// Which sockets may be made. Those with a path, and the kernel's list of this machine's addresses, always may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// No others.
    Local,
    /// Plain TCP, whose ports Landlock knows.
    Tcp,
    /// Internet protocols of every kind, in a network of the session's own.
    Own,
}

/// The lowest bits of a socket's type, without its flags.
const TYPE_MASK: u64 = 0xf;

/// What is added to the numbers of system calls in a third way of calling, on x86-64 alone.
const X32: i64 = 0x4000_0000;

/// Numbers of `sendmsg` and `sendmmsg` there.
const X32_SENDMSG: [i64; 2] = [518, 538];

/// What concerns the kernel's keys: those of the user's logins and encrypted folders.
const KEYS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];

/// Whether this machine filters system calls; asked once.
pub fn works() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        let tried = std::thread::spawn(|| {
            program(Some(Sockets::Local)).and_then(|program| apply(&program).map_err(io::Error::other))
        });
        matches!(tried.join(), Ok(Ok(())))
    });
    *WORKS
}

/// What the kernel is told: of sockets only where the network has a policy.
///
/// # Errors
/// On a processor for which no filter can be written.
pub fn program(sockets: Option<Sockets>) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = rules(sockets)
        .and_then(|rules| SeccompFilter::new(rules, SeccompAction::Allow, refused, arch))
        .map_err(io::Error::other)?;
    let own: BpfProgram = filter
        .try_into()
        .map_err(|error: seccompiler::BackendError| io::Error::other(error))?;
    // What isn't of this processor's own kind is killed by it; without a policy for sockets, programs of 32 bits go on.
    let others = match sockets {
        Some(_) => BpfProgram::new(),
        None => narrow::program(),
    };
    Ok(others.into_iter().chain(own).collect())
}

/// Filters this thread's system calls from now on, and those of everything that it starts.
///
/// # Errors
/// When the kernel refuses.
pub fn apply(program: &BpfProgram) -> Result<(), seccompiler::Error> {
    apply_filter(program)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Refusal<T> = Result<T, seccompiler::BackendError>;

/// What is refused, by system call; each rule is a case.
fn rules(sockets: Option<Sockets>) -> Refusal<Rules> {
    let mut rules: Rules = KEYS.iter().map(|call| (*call, Vec::new())).collect();
    let limits = brand::LIMITS.map(u64::from);
    let set = limits.map(|limit| all([is(0, SeccompCmpOp::Eq, limit)]));
    rules.insert(libc::SYS_setrlimit, set.into_iter().collect::<Refusal<_>>()?);
    // Without a new limit it only looks at the old one.
    let set_other = limits.map(|limit| all([is(1, SeccompCmpOp::Eq, limit), is_given(2)]));
    rules.insert(
        libc::SYS_prlimit64,
        set_other.into_iter().collect::<Refusal<_>>()?,
    );
    if let Some(sockets) = sockets {
        rules.insert(libc::SYS_socket, socket(sockets)?);
        // Makes sockets, and connects them, without further calls.
        rules.insert(libc::SYS_io_uring_setup, Vec::new());
    }
    if sockets == Some(Sockets::Tcp) {
        // Data that is sent with the opening of a connection, which Landlock doesn't see open.
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
    if cfg!(target_arch = "x86_64") {
        let mut others: Rules = rules
            .iter()
            .map(|(call, cases)| (call | X32, cases.clone()))
            .collect();
        let sends = [libc::SYS_sendmsg, libc::SYS_sendmmsg]
            .into_iter()
            .zip(X32_SENDMSG);
        for (call, there) in sends {
            if let Some(cases) = others.remove(&(call | X32)) {
                others.insert(there | X32, cases);
            }
        }
        rules.append(&mut others);
    }
    Ok(rules)
}

/// Sockets that may not be made.
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

fn is(argument: u8, how: SeccompCmpOp, value: u64) -> Refusal<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

/// Whether an address is given.
fn is_given(argument: u8) -> Refusal<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)
}

/// The case that all of these hold.
fn all(conditions: impl IntoIterator<Item = Refusal<SeccompCondition>>) -> Refusal<SeccompRule> {
    SeccompRule::new(conditions.into_iter().collect::<Refusal<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread is answered that filters its calls; 0 when it may.
    #[allow(unsafe_code)] // No library makes this call.
    fn asks_for_keys() -> i32 {
        // SAFETY: asks for the number of a keyring (KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING) and makes none.
        let answer = unsafe { libc::syscall(libc::SYS_keyctl, 0, -4, 0) };
        match answer {
            -1 => io::Error::last_os_error().raw_os_error().unwrap_or_default(),
            _ => 0,
        }
    }

    #[test]
    fn the_users_keys_are_refused_whatever_holds_for_the_network() {
        for sockets in [None, Some(Sockets::Local), Some(Sockets::Tcp), Some(Sockets::Own)] {
            let answered = std::thread::spawn(move || {
                apply(&program(sockets).unwrap()).unwrap();
                asks_for_keys()
            });
            assert_eq!(answered.join().unwrap(), libc::EPERM, "{sockets:?}");
        }
    }
}
