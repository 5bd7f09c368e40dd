//! Bounds of a memory, restoring hidden entries, and merging learnings that say nearly the same (SPEC 6.7).

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

/// Days after which an entry whose files are deleted is hidden (SPEC 6.7).
pub const STALE_DAYS: f64 = 30.0;
/// A tag is rare if at most one in this number of a repository's learnings has it.
const RARE: i64 = 10;
/// In a small memory, a tag is also rare with up to this many times the bound.
const SMALL: i64 = 3;
/// Maximum number of learnings that one session merges.
pub const MOST_MERGED: usize = 40;
/// Maximum number of characters of their texts in a prompt.
pub const MOST_MERGED_CHARS: usize = 40_000;
/// Maximum number of such sessions in 24 hours, whatever their cost: some agents report none.
pub const SESSIONS_A_DAY: i64 = 20;

/// The bounds of each repository's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Maximum number of live learnings.
    pub learnings: i64,
    /// Maximum number of live knowledge entries.
    pub knowledge: i64,
    /// Days without use after which an entry is hidden; 0 means never.
    pub unused_days: f64,
    /// When to merge learnings; `None` means never.
    pub distill: Option<Distill>,
}

/// When to merge learnings, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distill {
    /// Learnings with a common rare tag are merged when there are more than this.
    pub above: i64,
    /// Maximum cost of all such sessions in 24 hours. USD.
    pub usd_a_day: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            learnings: 100_000,
            knowledge: 20_000,
            unused_days: 365.0,
            distill: None,
        }
    }
}

impl Default for Distill {
    /// The defaults of SPEC 6.7.
    fn default() -> Self {
        Self {
            above: 20,
            usd_a_day: 1.0,
        }
    }
}

/// Why an entry is hidden, unless a person hid it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Because {
    /// No attempt got it for a long time.
    Unused,
    /// The repository exceeds its bound, and other entries weigh more or were used later.
    Full,
    /// Its files were deleted, and did not come back.
    Stale,
    /// Its attempt was revoked.
    Revoked,
    /// Its replacement was purged.
    Purged,
}

impl Because {
    const ALL: [Self; 5] = [Self::Unused, Self::Full, Self::Stale, Self::Revoked, Self::Purged];

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|because| because.into_str() == word)
    }
}

/// Facts on an entry that somebody wants to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    pub is_hidden: bool,
    /// The reason, if no person hid it.
    pub because: Option<Because>,
    /// Whether another entry replaces it.
    pub is_replaced: bool,
    /// Whether it belongs to a file of the repository that no longer exists.
    pub lost_its_file: bool,
}

/// Why an entry cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRestorable {
    Revoked,
    Purged,
    Replaced,
    LostItsFile,
}

/// Returns whether the entry must be restored: `false` for a visible one.
///
/// # Errors
/// If the entry was hidden for good.
pub fn comes_back(entry: Hidden) -> Result<bool, NotRestorable> {
    match entry.because {
        Some(Because::Revoked) => Err(NotRestorable::Revoked),
        Some(Because::Purged) => Err(NotRestorable::Purged),
        _ if entry.is_replaced => Err(NotRestorable::Replaced),
        _ if entry.lost_its_file => Err(NotRestorable::LostItsFile),
        Some(Because::Unused | Because::Full | Because::Stale) | None => Ok(entry.is_hidden),
    }
}

/// Learnings of one repository that share a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Number of these learnings.
    pub size: i64,
    /// Number of learnings in the repository.
    pub live: i64,
    /// Number of these learnings after the last merge, if any.
    pub left_over: Option<i64>,
}

impl Distill {
    /// Whether to merge a group now. After a merge, the group has to grow by half of the bound first, even if
    /// the last session merged little.
    pub fn is_due(&self, group: Group) -> bool {
        let rare = group.size <= (group.live / RARE).max(SMALL * self.above);
        let grown = group
            .left_over
            .is_none_or(|left| group.size > left + self.above / 2);
        group.size > self.above && rare && grown
    }

    /// The allowed cost of a new session, when `spent_usd` was spent or reserved and `begun` sessions began
    /// in the last 24 hours; `None` if none may begin.
    pub fn allowance_usd(&self, spent_usd: f64, begun: i64) -> Option<f64> {
        let left = self.usd_a_day - spent_usd;
        (left > 0.0 && begun < SESSIONS_A_DAY).then_some(left)
    }
}

/// The given learnings that each new one replaces. `named` has the ids that the session wrote beside each of
/// its learnings. Unknown ids are ignored, and an id belongs to the first learning that names it. A session
/// with one learning and no ids merged all. A learning with fewer than two ids replaces nothing.
pub fn mergers(given: &HashMap<String, Uuid>, named: &[Vec<String>]) -> Vec<Vec<Uuid>> {
    if let [only] = named
        && only.is_empty()
    {
        let mut all: Vec<Uuid> = given.values().copied().collect();
        all.sort_unstable();
        return vec![all];
    }
    let mut taken = BTreeSet::new();
    named
        .iter()
        .map(|ids| {
            let ids: BTreeSet<Uuid> = ids.iter().filter_map(|id| given.get(id).copied()).collect();
            let free: Vec<Uuid> = ids.into_iter().filter(|id| !taken.contains(id)).collect();
            if free.len() < 2 {
                return Vec::new();
            }
            taken.extend(free.iter().copied());
            free
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_merged_when_it_is_large_rare_and_grown() {
        let distill = Distill::default();
        let check = |size, live, left_over, expected| {
            let group = Group {
                size,
                live,
                left_over,
            };
            assert_eq!(distill.is_due(group), expected, "{group:?}");
        };
        check(20, 20, None, false);
        check(21, 21, None, true);
        check(60, 60, None, true);
        check(61, 61, None, false);
        check(100, 1_000, None, true);
        check(101, 1_000, None, false);
        check(31, 500, Some(21), false);
        check(32, 500, Some(21), true);
    }

    #[test]
    fn a_hidden_entry_can_be_restored_unless_revoked_or_replaced() {
        let hidden = Hidden {
            is_hidden: true,
            because: None,
            is_replaced: false,
            lost_its_file: false,
        };
        let because = |because| Hidden {
            because: Some(because),
            ..hidden
        };
        let check = |entry, expected| assert_eq!(comes_back(entry), expected, "{entry:?}");
        check(hidden, Ok(true));
        for upkeep in [Because::Unused, Because::Full, Because::Stale] {
            check(because(upkeep), Ok(true));
        }
        check(
            Hidden {
                is_hidden: false,
                ..hidden
            },
            Ok(false),
        );
        check(because(Because::Revoked), Err(NotRestorable::Revoked));
        check(because(Because::Purged), Err(NotRestorable::Purged));
        let replaced = Hidden {
            is_replaced: true,
            ..hidden
        };
        check(replaced, Err(NotRestorable::Replaced));
        check(
            Hidden {
                is_hidden: false,
                ..replaced
            },
            Err(NotRestorable::Replaced),
        );
        check(
            Hidden {
                lost_its_file: true,
                ..hidden
            },
            Err(NotRestorable::LostItsFile),
        );
        for because in Because::ALL {
            assert_eq!(Because::parse(because.into_str()), Some(because));
        }
    }

    #[test]
    fn sessions_end_with_the_days_budget() {
        let distill = Distill::default();
        assert_eq!(distill.allowance_usd(0.25, 3), Some(0.75));
        assert_eq!(distill.allowance_usd(1.0, 3), None);
        assert_eq!(distill.allowance_usd(0.0, SESSIONS_A_DAY), None);
    }

    #[test]
    fn a_merger_replaces_the_given_learnings_that_it_names() {
        let ids: Vec<Uuid> = (1..=4).map(Uuid::from_u128).collect();
        let given: HashMap<String, Uuid> = ids
            .iter()
            .map(|id| (format!("l-{}", id.as_u128()), *id))
            .collect();
        let check = |named: &[&[&str]], expected: &[&[usize]]| {
            let named: Vec<Vec<String>> = named
                .iter()
                .map(|ids| ids.iter().map(|&id| id.to_owned()).collect())
                .collect();
            let expected: Vec<Vec<Uuid>> = expected
                .iter()
                .map(|at| at.iter().map(|&at| ids[at]).collect())
                .collect();
            assert_eq!(mergers(&given, &named), expected, "{named:?}");
        };
        check(&[], &[]);
        check(&[&[]], &[&[0, 1, 2, 3]]);
        check(&[&["l-2", "l-1"], &["l-2", "l-3", "l-4"]], &[&[0, 1], &[2, 3]]);
        check(&[&["l-1", "l-9"], &[], &["l-1"]], &[&[], &[], &[]]);
    }
}
