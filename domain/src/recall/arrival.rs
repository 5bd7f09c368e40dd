//! Finds new entries that repeat others, and new entries that contradict older ones (SPEC 6.7).

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::likeness::{Likeness, Statement};

/// Maximum number of entries of one batch that a new one is compared with.
const COMPARED: usize = 16;

/// An entry that is about to be released.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub id: Uuid,
    pub repo_id: String,
    pub statement: Statement,
    pub bands: Vec<i64>,
}

impl Arrival {
    /// An entry by its title, which is empty for a learning, and its body.
    pub fn new(id: Uuid, repo_id: &str, title: &str, body: &str) -> Self {
        let statement = Statement::of(&format!("{title} {body}"));
        Self {
            id,
            repo_id: repo_id.to_owned(),
            bands: statement.bands(),
            statement,
        }
    }

    fn may_say_the_same(&self, other: &Self) -> bool {
        self.repo_id == other.repo_id
            && self
                .bands
                .iter()
                .zip(&other.bands)
                .any(|(one, other)| one == other)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    pub entry: Uuid,
    pub by: Uuid,
    /// Whether both say the same; else `by` contradicts `entry`.
    pub is_witness: bool,
}

/// Compares entries, in the order of their arrival, with each other and with the older ones that share a band
/// with them. A repetition becomes a witness of the older entry, and a contradiction replaces the older one.
pub fn replaced(arrivals: &[Arrival], older: &HashMap<Uuid, Vec<(Uuid, Statement)>>) -> Vec<Replaced> {
    let mut replaced: Vec<Replaced> = Vec::new();
    let mut gone: HashSet<Uuid> = HashSet::new();
    let mut staying: Vec<&Arrival> = Vec::new();
    for new in arrivals {
        let old = older
            .get(&new.id)
            .into_iter()
            .flatten()
            .map(|(id, statement)| (*id, statement));
        let beside = staying.iter().rev().filter(|other| other.may_say_the_same(new));
        let beside = beside.take(COMPARED).map(|other| (other.id, &other.statement));
        let mut same_as = None;
        for (other, statement) in old.chain(beside) {
            if gone.contains(&other) {
                continue;
            }
            match new.statement.compare(statement) {
                Likeness::Same => {
                    same_as = Some(other);
                    break;
                }
                Likeness::Contrary => {
                    replaced.push(Replaced {
                        entry: other,
                        by: new.id,
                        is_witness: false,
                    });
                    gone.insert(other);
                }
                Likeness::Different => {}
            }
        }
        staying.retain(|other| !gone.contains(&other.id));
        match same_as {
            Some(by) => replaced.push(Replaced {
                entry: new.id,
                by,
                is_witness: true,
            }),
            None => staying.push(new),
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(n: u128, body: &str) -> Arrival {
        Arrival::new(Uuid::from_u128(n), "r", "", body)
    }

    fn replacements(arrivals: &[Arrival], older: &[Arrival]) -> Vec<(u128, u128, bool)> {
        let old = || older.iter().map(|one| (one.id, one.statement.clone())).collect();
        let older = arrivals.iter().map(|one| (one.id, old())).collect();
        replaced(arrivals, &older)
            .iter()
            .map(|one| (one.entry.as_u128(), one.by.as_u128(), one.is_witness))
            .collect()
    }

    #[test]
    fn repetitions_become_witnesses_and_contradicted_entries_go() {
        let first = arrival(
            1,
            "Serial numbers of zones wrap around, compare them by RFC 1982.",
        );
        let same = arrival(
            2,
            "Compare serial numbers of zones by RFC 1982: they wrap around!",
        );
        let contrary = arrival(
            3,
            "Serial numbers of zones wrap around, compare them by RFC 1035.",
        );
        let other = arrival(4, "The parser of zone files keeps comments of a record with it.");
        let late = arrival(
            5,
            "Compare the serial numbers of zones by RFC 1035: they wrap around!",
        );
        let all = [&first, &same, &contrary, &other, &late].map(Clone::clone);
        // The result is the same whether the entries arrive together or one after the other.
        assert_eq!(
            replacements(&all, &[]),
            [(2, 1, true), (1, 3, false), (5, 3, true)]
        );
        assert_eq!(
            replacements(&all[1..], &all[..1]),
            [(2, 1, true), (1, 3, false), (5, 3, true)]
        );
        assert_eq!(replacements(&all[4..], &[contrary, other]), [(5, 3, true)]);
    }

    #[test]
    fn entries_of_other_repositories_are_not_compared() {
        let one = arrival(1, "Serial numbers of zones wrap around.");
        let elsewhere = Arrival {
            id: Uuid::from_u128(2),
            repo_id: "other".to_owned(),
            ..one.clone()
        };
        assert_eq!(replacements(&[one, elsewhere], &[]), []);
    }
}
