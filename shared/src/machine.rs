//! Identifies this machine, for work in folders that only one machine has.

use std::fs;

use crate::wire::sha256_hex;

/// Hex digits of the machine's identity in a pool's name.
const DIGITS: usize = 12;

/// The pool of the workers on this machine that may work in its folders. A person who submits such work here
/// names it, and no other machine serves it. Each container is a machine of its own.
pub fn dir_pool() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let identity = ["/etc/machine-id", "/proc/sys/kernel/hostname", "/etc/hostname"].map(read);
    let mut identity = identity.join("\n");
    if !cfg!(target_os = "linux") {
        // Only Linux has these files.
        let name = nix::unistd::gethostname().unwrap_or_default();
        identity.push_str(&name.to_string_lossy());
    }
    let hash = sha256_hex(identity.as_bytes());
    format!("dir-{}", hash.get(..DIGITS).unwrap_or_default())
}

/// Whether a pool belongs to one machine, for its folders.
pub fn is_dir_pool(pool: &str) -> bool {
    pool.strip_prefix("dir-")
        .is_some_and(|hash| hash.len() == DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::is_label;

    #[test]
    fn a_machine_has_one_stable_pool() {
        assert_eq!(dir_pool(), dir_pool());
        assert!(is_dir_pool(&dir_pool()) && is_label(&dir_pool()));
        assert!(!is_dir_pool("default") && !is_dir_pool("dir-x"));
    }
}
