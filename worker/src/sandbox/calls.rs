//! System calls refused to every session, with their numbers: calls that reach other users' processes, memory
//! or devices rather than files. Landlock and namespaces close the rest (docs/agents.md has the whole table).

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::sandbox::process_tag;

/// Resources that a session shares with other programs of the worker's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// Process ids: without a PID namespace, a call by pid reaches other programs of the user.
    pub processes: bool,
    /// System V IPC and POSIX message queues: without an IPC namespace.
    pub ipc: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// Without an IPC namespace.
    Ipc,
    /// Without a PID namespace, if this argument isn't 0, which means the caller.
    OtherProcess(u8),
    /// Like `OtherProcess`, but the first argument is the kind of id in the second, and this kind means all
    /// processes of a user.
    OtherProcesses(u64),
    /// If it sets one of the limits that form the process tag.
    ProcessTag,
    /// Like `ProcessTag`, by pid. Without a PID namespace also if it sets any limit of another process.
    LimitsOf,
    /// If it types into a terminal.
    Typing,
}

/// A call's numbers: for this processor, and for 32-bit programs on x86 and ARM.
struct Call {
    own: Option<i64>,
    x86: Option<i64>,
    arm: Option<i64>,
    when: When,
}

const fn call(own: i64, x86: i64, arm: i64, when: When) -> Call {
    Call {
        own: Some(own),
        x86: Some(x86),
        arm: Some(arm),
        when,
    }
}

/// Calls that older 32-bit programs on x86 make through [`X86_IPC`].
const fn by_number(own: i64, arm: i64) -> Call {
    Call {
        own: Some(own),
        x86: None,
        arm: Some(arm),
        when: When::Ipc,
    }
}

/// `ioctl` requests that type into a terminal, or into the console.
const TYPING: [u64; 2] = [0x5412, 0x541c];

const CALLS: &[Call] = &[
    // The kernel's keys belong to the user: those of logins and encrypted folders.
    call(libc::SYS_add_key, 286, 309, When::Always),
    call(libc::SYS_request_key, 287, 310, When::Always),
    call(libc::SYS_keyctl, 288, 311, When::Always),
    // A ring makes calls that no filter sees.
    call(libc::SYS_io_uring_setup, 425, 425, When::Always),
    call(libc::SYS_io_uring_enter, 426, 426, When::Always),
    call(libc::SYS_io_uring_register, 427, 427, When::Always),
    // These observe other programs or the kernel, if the machine's settings allow it.
    call(libc::SYS_perf_event_open, 336, 364, When::Always),
    call(libc::SYS_bpf, 357, 386, When::Always),
    call(libc::SYS_userfaultfd, 374, 388, When::Always),
    // Opens a file without a path.
    call(libc::SYS_open_by_handle_at, 342, 371, When::Always),
    call(libc::SYS_ioctl, 54, 54, When::Typing),
    call(libc::SYS_setrlimit, 75, 75, When::ProcessTag),
    call(libc::SYS_prlimit64, 340, 369, When::LimitsOf),
    call(libc::SYS_sched_setparam, 154, 154, When::OtherProcess(0)),
    call(libc::SYS_sched_setscheduler, 156, 156, When::OtherProcess(0)),
    call(libc::SYS_sched_setaffinity, 241, 241, When::OtherProcess(0)),
    call(libc::SYS_sched_setattr, 351, 380, When::OtherProcess(0)),
    call(
        libc::SYS_setpriority,
        97,
        97,
        When::OtherProcesses(libc::PRIO_USER as u64),
    ),
    call(
        libc::SYS_ioprio_set,
        289,
        314,
        When::OtherProcesses(IOPRIO_WHO_USER),
    ),
    call(libc::SYS_shmget, 395, 307, When::Ipc),
    call(libc::SYS_shmat, 397, 305, When::Ipc),
    call(libc::SYS_shmctl, 396, 308, When::Ipc),
    call(libc::SYS_semget, 393, 299, When::Ipc),
    call(libc::SYS_semctl, 394, 300, When::Ipc),
    by_number(libc::SYS_semop, 298),
    by_number(libc::SYS_semtimedop, 312),
    call(libc::SYS_msgget, 399, 303, When::Ipc),
    call(libc::SYS_msgsnd, 400, 301, When::Ipc),
    call(libc::SYS_msgrcv, 401, 302, When::Ipc),
    call(libc::SYS_msgctl, 402, 304, When::Ipc),
    call(libc::SYS_mq_open, 277, 274, When::Ipc),
    call(libc::SYS_mq_unlink, 278, 275, When::Ipc),
    X86_IPC,
    SEMTIMEDOP_TIME64,
];

/// `ipc`, which multiplexes all calls of System V IPC.
const X86_IPC: Call = Call {
    own: None,
    x86: Some(117),
    arm: None,
    when: When::Ipc,
};

/// `semtimedop_time64`, which only 32-bit programs have.
const SEMTIMEDOP_TIME64: Call = Call {
    own: None,
    x86: Some(420),
    arm: Some(420),
    when: When::Ipc,
};

const IOPRIO_WHO_USER: u64 = 3;

pub(super) type Rules = std::collections::BTreeMap<i64, Vec<SeccompRule>>;
pub(super) type Refusal<T> = Result<T, seccompiler::BackendError>;

/// Refusal rules for this processor's own numbers. Each rule is a case; a call without rules is always
/// refused.
pub(super) fn own(shared: Shared) -> Refusal<Rules> {
    rules(shared, |call| call.own)
}

pub(super) fn rules_32_bit(shared: Shared) -> Refusal<Rules> {
    rules(shared, |call| {
        if cfg!(target_arch = "x86_64") {
            call.x86
        } else {
            call.arm
        }
    })
}

fn rules(shared: Shared, number: impl Fn(&Call) -> Option<i64>) -> Refusal<Rules> {
    let mut rules = Rules::new();
    for call in CALLS {
        let Some(number) = number(call) else {
            continue;
        };
        if let Some(cases) = cases(call.when, shared)? {
            rules.insert(number, cases);
        }
    }
    Ok(rules)
}

/// The cases in which a call is refused. `None` for never.
fn cases(when: When, shared: Shared) -> Refusal<Option<Vec<SeccompRule>>> {
    use SeccompCmpOp::{Eq, Ne};
    let tags = process_tag::LIMITS.map(u64::from);
    let cases: Vec<Refusal<SeccompRule>> = match when {
        When::Always => Vec::new(),
        When::Ipc if shared.ipc => Vec::new(),
        When::OtherProcess(pid) if shared.processes => vec![all([is(pid, Ne, 0)])],
        When::OtherProcesses(of_user) if shared.processes => {
            vec![all([is(1, Ne, 0)]), all([is(0, Eq, of_user)])]
        }
        When::Ipc | When::OtherProcess(_) | When::OtherProcesses(_) => return Ok(None),
        When::ProcessTag => tags.map(|limit| all([is(0, Eq, limit)])).into(),
        When::LimitsOf => {
            // Without new limits the call only reads the old ones.
            let mut cases: Vec<_> = tags.map(|limit| all([is(1, Eq, limit), is_given(2)])).into();
            if shared.processes {
                cases.push(all([is(0, Ne, 0), is_given(2)]));
            }
            cases
        }
        When::Typing => TYPING.map(|request| all([is(1, Eq, request)])).into(),
    };
    cases.into_iter().collect::<Refusal<_>>().map(Some)
}

pub(super) fn is(argument: u8, how: SeccompCmpOp, value: u64) -> Refusal<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

/// The argument's address is not null.
fn is_given(argument: u8) -> Refusal<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)
}

/// The case in which all conditions hold.
pub(super) fn all(conditions: impl IntoIterator<Item = Refusal<SeccompCondition>>) -> Refusal<SeccompRule> {
    SeccompRule::new(conditions.into_iter().collect::<Refusal<_>>()?)
}
