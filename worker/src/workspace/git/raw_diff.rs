//! Parser for `diff-tree -z --raw` and `diff-index -z --raw`.

/// A changed file, as git prints it: modes, hex object ids, and a path of any bytes.
pub(in crate::workspace) struct RawChange<'a> {
    pub old_mode: &'a [u8],
    pub new_mode: &'a [u8],
    pub old: &'a [u8],
    pub new: &'a [u8],
    pub path: &'a [u8],
}

pub(in crate::workspace) fn raw_changes(raw: &[u8]) -> impl Iterator<Item = RawChange<'_>> {
    let mut fields = raw.split(|byte| *byte == 0);
    std::iter::from_fn(move || {
        let (entry, path) = (fields.next()?, fields.next()?);
        let entry = entry.strip_prefix(b":").unwrap_or(entry);
        let mut words = entry.split(|byte| *byte == b' ');
        Some(RawChange {
            old_mode: words.next()?,
            new_mode: words.next()?,
            old: words.next()?,
            new: words.next()?,
            path,
        })
    })
}
