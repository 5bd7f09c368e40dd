//! System calls of programs of 32 bits, which most processors run beside their own. Their calls have other numbers, and a
//! program of 64 bits can make them as well; so what is refused is refused there too.

use std::mem::offset_of;

use seccompiler::{BpfProgram, sock_filter};

/// A way to call the kernel: its name for the kernel (`AUDIT_ARCH_…`), and its numbers of calls.
struct Calls {
    arch: u32,
    /// `add_key`, `request_key` and `keyctl`.
    keys: [u32; 3],
}

#[cfg(target_arch = "x86_64")]
const CALLS: Option<Calls> = Some(Calls {
    arch: 0x4000_0003,
    keys: [286, 287, 288],
});

#[cfg(target_arch = "aarch64")]
const CALLS: Option<Calls> = Some(Calls {
    arch: 0x4000_0028,
    keys: [309, 310, 311],
});

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: Option<Calls> = None;

/// Loads a word of what the kernel tells of a call.
const LOAD: u16 = 0x20;
/// Skips as many steps as it says when the word is this one.
const IS: u16 = 0x15;
/// Answers.
const ANSWER: u16 = 0x06;

/// Answers calls of that kind, and goes on to what is put behind it for others.
pub fn program() -> BpfProgram {
    let Some(Calls { arch, keys }) = CALLS else {
        return BpfProgram::new();
    };
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    vec![
        step(LOAD, word(offset_of!(libc::seccomp_data, arch)), 0, 0),
        step(IS, arch, 0, 6),
        step(LOAD, word(offset_of!(libc::seccomp_data, nr)), 0, 0),
        step(IS, keys[0], 3, 0),
        step(IS, keys[1], 2, 0),
        step(IS, keys[2], 1, 0),
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

    /// What is answered to a call; `None` when it is none of these.
    fn answered(arch: u32, nr: u32) -> Option<u32> {
        let program = program();
        let (mut at, mut loaded) = (0, 0);
        while let Some(step) = program.get(at) {
            at += 1;
            match step.code {
                LOAD if step.k == 0 => loaded = nr,
                LOAD => loaded = arch,
                IS => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                _ => return Some(step.k),
            }
        }
        None
    }

    #[test]
    fn programs_of_32_bits_run_and_have_no_keys_either() {
        let Some(Calls { arch, keys }) = CALLS else {
            return;
        };
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        for key in keys {
            assert_eq!(answered(arch, key), Some(refused), "{key}");
            assert_eq!(answered(0xc000_003e, key), None, "{key}");
        }
        assert_eq!(answered(arch, 1), Some(libc::SECCOMP_RET_ALLOW));
    }
}
