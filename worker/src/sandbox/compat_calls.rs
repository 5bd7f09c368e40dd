//! System calls in other ABIs than the processor's own. 32-bit programs run beside 64-bit ones, and a 64-bit
//! program can make their calls too, so the same calls are refused there. x32, the third ABI on x86-64, is
//! unused and refused entirely.

use std::mem::offset_of;

use seccompiler::{BpfProgram, sock_filter};

/// The kernel's name of 32-bit programs (`AUDIT_ARCH_…`), if the processor runs them.
const ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0x4000_0003)
} else if cfg!(target_arch = "aarch64") {
    Some(0x4000_0028)
} else {
    None
};

/// Call numbers from here on belong to x32, on x86-64 only.
const X32: u32 = 0x4000_0000;

/// Instructions at the start of a seccompiler program that check for the processor's own ABI.
const CHECK: usize = 3;

/// Loads a word of the kernel's data about a call.
const LOAD: u16 = 0x20;
/// Skips a number of instructions.
const SKIP: u16 = 0x05;
/// Skips `jt` instructions if the word equals `k`, otherwise `jf`.
const IS: u16 = 0x15;
/// Like [`IS`], if the word is at least `k`.
const IS_FROM: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Instructions to put before a program for the processor's own ABI: they answer calls of other ABIs.
/// `narrow` is the filter of 32-bit numbers, compiled for the own ABI.
pub fn before(narrow: Option<BpfProgram>) -> BpfProgram {
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let mut program = BpfProgram::new();
    if let (Some(arch), Some(narrow)) = (ARCH, narrow) {
        let rest = narrow.get(CHECK..).unwrap_or_default();
        program.extend([
            step(LOAD, word(offset_of!(libc::seccomp_data, arch)), 0, 0),
            step(IS, arch, 1, 0),
            step(SKIP, word(rest.len()), 0, 0),
        ]);
        program.extend_from_slice(rest);
    }
    if cfg!(target_arch = "x86_64") {
        program.extend([
            step(LOAD, word(offset_of!(libc::seccomp_data, nr)), 0, 0),
            step(IS_FROM, X32, 0, 1),
            step(RETURN, refused, 0, 0),
        ]);
    }
    program
}

fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::calls::Shared;
    use super::super::filter::program;
    use super::*;

    /// Masks the word with `k`.
    const KEEP: u16 = 0x54;
    /// Like [`IS`], if the word is greater than `k`.
    const IS_ABOVE: u16 = 0x25;

    /// The filter's answer to a call.
    fn answered(arch: u32, nr: u32, arguments: [u32; 3], shared: bool) -> u32 {
        let shared = Shared {
            processes: shared,
            ipc: shared,
        };
        let program = program(None, shared).unwrap();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let jump = |holds| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        0 => nr,
                        4 => arch,
                        16.. if step.k.is_multiple_of(8) => arguments[(step.k as usize - 16) / 8],
                        _ => 0,
                    }
                }
                SKIP => at += step.k as usize,
                IS => at += jump(loaded == step.k),
                IS_FROM => at += jump(loaded >= step.k),
                IS_ABOVE => at += jump(loaded > step.k),
                KEEP => loaded &= step.k,
                RETURN => return step.k,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn programs_of_32_bits_run_with_the_same_refusals() {
        let Some(arch) = ARCH else {
            return;
        };
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        let allowed = libc::SECCOMP_RET_ALLOW;
        let numbers = |x86: u32, arm: u32| if cfg!(target_arch = "x86_64") { x86 } else { arm };
        let prlimit = numbers(340, 369);
        // The call, its arguments, and the answers with shared and with separate processes and IPC.
        let rows = [
            (numbers(286, 309), [0, 0, 0], refused, refused),
            (numbers(288, 311), [0, 0, 0], refused, refused),
            (425, [0, 0, 0], refused, refused),
            (54, [0, 0x5412, 0], refused, refused),
            (54, [0, 0x5401, 0], allowed, allowed),
            (75, [10, 0, 0], refused, refused),
            (75, [15, 0, 0], refused, refused),
            (75, [7, 10, 0], allowed, allowed),
            (prlimit, [0, 15, 1], refused, refused),
            (prlimit, [0, 15, 0], allowed, allowed),
            (prlimit, [0, 1, 1], allowed, allowed),
            (prlimit, [9, 1, 1], refused, allowed),
            (prlimit, [9, 1, 0], allowed, allowed),
            (241, [9, 0, 0], refused, allowed),
            (241, [0, 0, 0], allowed, allowed),
            (97, [2, 0, 0], refused, allowed),
            (numbers(117, 307), [0, 0, 0], refused, allowed),
            (1, [10, 10, 0], allowed, allowed),
        ];
        for (nr, arguments, shared, apart) in rows {
            assert_eq!(answered(arch, nr, arguments, true), shared, "{nr} {arguments:?}");
            assert_eq!(answered(arch, nr, arguments, false), apart, "{nr} {arguments:?}");
        }
        assert_eq!(answered(0, 1, [0; 3], true), libc::SECCOMP_RET_KILL_PROCESS);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(answered(0xc000_003e, X32 | 1, [0; 3], true), refused);
            assert_eq!(answered(0xc000_003e, 1, [0; 3], true), allowed);
        }
    }
}
