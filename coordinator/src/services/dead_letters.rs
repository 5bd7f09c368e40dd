//! Hands back reports that cannot be read yet (DESIGN 3), while their workers publish them again. One copy of
//! each is enough: the broker hands out a limited number at a time, and readable reports must not wait behind
//! copies.

use std::collections::HashMap;

use ralph_shared::ids::DispatchId;

/// Most remembered reports; beyond that the memory starts over, which keeps one more copy for a while.
const MOST: usize = 10_000;

/// The newest copy of each unread report that this coordinator has seen.
#[derive(Debug, Default)]
pub struct Unread {
    newest: HashMap<DispatchId, u64>,
}

impl Unread {
    /// Whether this copy is the newest, by its number in the stream. An older one may go, since the newer one
    /// stays.
    pub fn is_newest(&mut self, dispatch: DispatchId, sequence: u64) -> bool {
        if self.newest.len() >= MOST && !self.newest.contains_key(&dispatch) {
            self.newest.clear();
        }
        let newest = self.newest.entry(dispatch).or_insert(sequence);
        *newest = sequence.max(*newest);
        *newest == sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_copy_stays_however_often_it_arrives() {
        let mut unread = Unread::default();
        let (one, other) = (DispatchId::new(), DispatchId::new());
        let kept: Vec<bool> = [(one, 5), (one, 5), (one, 9), (one, 5), (other, 6), (one, 9)]
            .into_iter()
            .map(|(dispatch, sequence)| unread.is_newest(dispatch, sequence))
            .collect();
        assert_eq!(kept, [true, true, true, false, true, true]);
    }
}
