//! The versions of messages that this release reads and writes.

/// Every version that this release can read, lowest first.
pub const READS: &[u16] = &[1];

/// The version that this release writes for an unknown reader.
pub const WRITES: u16 = 1;

/// The highest version that both sides read, or `None` when they have none in common.
pub fn common_version(theirs: &[u16]) -> Option<u16> {
    READS
        .iter()
        .copied()
        .filter(|version| theirs.contains(version))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_common_version_wins() {
        assert_eq!(common_version(&[1, 2, 3]), Some(1));
        assert_eq!(common_version(&[2, 3]), None);
        assert_eq!(common_version(&[]), None);
    }
}
