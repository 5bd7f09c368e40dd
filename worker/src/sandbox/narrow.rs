//! System calls of programs of 32 bits, which most processors run beside their own. Their calls have other numbers, and a
//! program of 64 bits can make them as well; so what is refused is refused there too.

use std::mem::offset_of;

use seccompiler::{BpfProgram, sock_filter};

use super::brand::LIMITS;

/// A way to call the kernel: its name for the kernel (`AUDIT_ARCH_…`), and its numbers of calls.
struct Calls {
    arch: u32,
    /// `add_key`, `request_key` and `keyctl`.
    keys: [u32; 3],
    setrlimit: u32,
    prlimit64: u32,
}

#[cfg(target_arch = "x86_64")]
const CALLS: Option<Calls> = Some(Calls {
    arch: 0x4000_0003,
    keys: [286, 287, 288],
    setrlimit: 75,
    prlimit64: 340,
});

#[cfg(target_arch = "aarch64")]
const CALLS: Option<Calls> = Some(Calls {
    arch: 0x4000_0028,
    keys: [309, 310, 311],
    setrlimit: 75,
    prlimit64: 369,
});

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: Option<Calls> = None;

/// Loads a word of what the kernel tells of a call.
const LOAD: u16 = 0x20;
/// Skips so many steps.
const SKIP: u16 = 0x05;
/// Skips one number of steps when the word is this one, else the other.
const IS: u16 = 0x15;
/// Answers.
const ANSWER: u16 = 0x06;

/// Answers calls of that kind, and goes on to what is put behind it for others.
pub fn program() -> BpfProgram {
    let Some(calls) = CALLS else {
        return BpfProgram::new();
    };
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let argument = |number: usize| word(offset_of!(libc::seccomp_data, args) + 8 * number);
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    vec![
        step(LOAD, word(offset_of!(libc::seccomp_data, arch)), 0, 0),
        step(IS, calls.arch, 0, 13),
        step(LOAD, word(offset_of!(libc::seccomp_data, nr)), 0, 0),
        step(IS, calls.keys[0], 10, 0),
        step(IS, calls.keys[1], 9, 0),
        step(IS, calls.keys[2], 8, 0),
        step(IS, calls.setrlimit, 3, 0),
        step(IS, calls.prlimit64, 0, 5),
        // That it only looks isn't told apart: nobody asks for these limits.
        step(LOAD, argument(1), 0, 0),
        step(SKIP, 1, 0, 0),
        step(LOAD, argument(0), 0, 0),
        step(IS, LIMITS[0], 2, 0),
        step(IS, LIMITS[1], 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(ANSWER, refused, 0, 0),
    ]
}

/// The offset of a word.
fn word(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered to a call with two arguments; `None` when it is none of these.
    fn answered(arch: u32, nr: u32, arguments: [u32; 2]) -> Option<u32> {
        let program = program();
        let (mut at, mut loaded) = (0, 0);
        while let Some(step) = program.get(at) {
            at += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        0 => nr,
                        4 => arch,
                        16 => arguments[0],
                        24 => arguments[1],
                        other => panic!("{other}"),
                    }
                }
                SKIP => at += usize::try_from(step.k).unwrap(),
                IS => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                ANSWER => return Some(step.k),
                other => panic!("{other}"),
            }
        }
        None
    }

    #[test]
    fn programs_of_32_bits_run_and_may_no_more_than_others() {
        let Some(calls) = CALLS else {
            return;
        };
        let refused = Some(libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
        let allowed = Some(libc::SECCOMP_RET_ALLOW);
        let [locks, realtime] = LIMITS;
        let rows = [
            (calls.keys[0], [0, 0], refused),
            (calls.keys[1], [0, 0], refused),
            (calls.keys[2], [0, 0], refused),
            (calls.setrlimit, [realtime, 0], refused),
            (calls.setrlimit, [locks, 0], refused),
            (calls.setrlimit, [7, locks], allowed),
            (calls.prlimit64, [0, realtime], refused),
            (calls.prlimit64, [0, locks], refused),
            (calls.prlimit64, [locks, 7], allowed),
            (1, [locks, locks], allowed),
        ];
        for (nr, arguments, expected) in rows {
            assert_eq!(
                answered(calls.arch, nr, arguments),
                expected,
                "{nr} {arguments:?}"
            );
            assert_eq!(answered(0, nr, arguments), None, "{nr} {arguments:?}");
        }
    }
}
