//! Many short lists of indexes in two allocations.

/// The items of each row, in the order in which they were given.
#[derive(Debug)]
pub struct Rows {
    /// Row `r` is `items[ends[r]..ends[r + 1]]`.
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    /// `each_pair` calls back with every (row, item), and does so twice with the same pairs.
    pub fn new(rows: usize, each_pair: impl Fn(&mut dyn FnMut(u32, u32))) -> Self {
        let mut ends = vec![0; rows + 1];
        each_pair(&mut |row, _| ends[row as usize + 1] += 1);
        for row in 0..rows {
            ends[row + 1] += ends[row];
        }
        let mut items = vec![0; ends[rows] as usize];
        let mut free = ends.clone();
        each_pair(&mut |row, item| {
            let place = &mut free[row as usize];
            items[*place as usize] = item;
            *place += 1;
        });
        Self { ends, items }
    }

    pub fn children(parents: &[Option<u32>]) -> Self {
        Self::new(parents.len(), |pair| {
            for (child, parent) in (0..).zip(parents) {
                if let Some(parent) = *parent {
                    pair(parent, child);
                }
            }
        })
    }

    pub fn row(&self, row: u32) -> &[u32] {
        &self.items[self.ends[row as usize] as usize..self.ends[row as usize + 1] as usize]
    }
}
