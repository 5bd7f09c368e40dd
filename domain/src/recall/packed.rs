//! An analysed text as one value: the number of words of each field, then the words, 32 bits each, most
//! significant byte first. A file's key has the size of two words.
//!
//! Eight separate lists of words would take more space than the words themselves. Migrations write this
//! format in SQL (`int4send`).

use super::doc::Analysed;
use super::words::Word;

/// Fields of an analysed text.
const FIELDS: usize = 8;

impl Analysed {
    pub fn pack(&self) -> Vec<u8> {
        let Self {
            title,
            body,
            place,
            tags,
            names,
            stems,
            files,
            folders,
        } = self;
        let files_halves = files.iter().flat_map(|key| {
            let key = key.cast_unsigned().to_be_bytes();
            [[key[0], key[1], key[2], key[3]], [key[4], key[5], key[6], key[7]]].map(Word::from_be_bytes)
        });
        let before = [title, body, place, tags, names, stems];
        let lengths = before
            .map(Vec::len)
            .into_iter()
            .chain([files.len(), folders.len()]);
        let lengths = lengths.map(|len| Word::try_from(len).unwrap_or(Word::MAX));
        let words = before.into_iter().flatten().copied();
        let all = lengths
            .chain(words)
            .chain(files_halves)
            .chain(folders.iter().copied());
        all.flat_map(Word::to_be_bytes).collect()
    }

    /// Unpacks a value; `None` when the bytes are not such a value.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        let (words, rest) = packed.as_chunks::<4>();
        if !rest.is_empty() {
            return None;
        }
        let (lengths, mut words) = words.split_at_checked(FIELDS)?;
        let mut lengths = lengths.iter().map(|&bytes| Word::from_be_bytes(bytes) as usize);
        let mut next = |words_each: usize| {
            let len = lengths.next()?.checked_mul(words_each)?;
            let (taken, left) = words.split_at_checked(len)?;
            words = left;
            Some(taken)
        };
        let plain =
            |field: &[[u8; 4]]| -> Vec<Word> { field.iter().map(|&b| Word::from_be_bytes(b)).collect() };
        let analysed = Self {
            title: plain(next(1)?),
            body: plain(next(1)?),
            place: plain(next(1)?),
            tags: plain(next(1)?),
            names: plain(next(1)?),
            stems: plain(next(1)?),
            files: next(2)?
                .as_chunks::<2>()
                .0
                .iter()
                .map(|halves| {
                    let [high, low] = halves.map(|half| u64::from(Word::from_be_bytes(half)));
                    (high << 32 | low).cast_signed()
                })
                .collect(),
            folders: plain(next(1)?),
        };
        words.is_empty().then_some(analysed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn analysed() -> impl Strategy<Value = Analysed> {
        let words = || vec(any::<Word>(), 0..20);
        let files = vec(any::<i64>(), 0..5);
        (
            words(),
            words(),
            words(),
            words(),
            words(),
            words(),
            files,
            words(),
        )
            .prop_map(
                |(title, body, place, tags, names, stems, files, folders)| Analysed {
                    title,
                    body,
                    place,
                    tags,
                    names,
                    stems,
                    files,
                    folders,
                },
            )
    }

    proptest! {
        #[test]
        fn unpacking_returns_the_packed_value(one in analysed()) {
            prop_assert_eq!(Analysed::unpack(&one.pack()), Some(one));
        }

        #[test]
        fn any_accepted_bytes_pack_to_themselves(bytes in vec(any::<u8>(), 0..200)) {
            if let Some(one) = Analysed::unpack(&bytes) {
                prop_assert_eq!(one.pack(), bytes);
            }
        }

        #[test]
        fn a_cut_value_is_refused(one in analysed(), cut in 1_usize..200) {
            let packed = one.pack();
            let cut = cut.min(packed.len());
            prop_assert_eq!(Analysed::unpack(&packed[..packed.len() - cut]), None);
        }
    }

    #[test]
    fn the_format_matches_the_one_of_migrations() {
        let one = Analysed {
            title: vec![1, u32::MAX],
            files: vec![-2],
            ..Analysed::default()
        };
        let expected = "00000002000000000000000000000000000000000000000000000001000000000000000\
                        1fffffffffffffffffffffffe";
        let hex: String = one.pack().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }
}
