/// Random words with the frequencies of real text: few are frequent, most are rare. The same on every
/// machine.
pub(super) struct Text(pub(super) u64);

const WORDS: u64 = 30_000;
const FILES: u64 = 5_000;

impl Text {
    fn next(&mut self) -> u64 {
        // Knuth's MMIX generator; its upper bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(super) fn word(&mut self) -> String {
        let share = self.next() as f64 / (1u64 << 31) as f64;
        let number = (WORDS as f64 * share.powi(4)) as u64;
        let mut word = String::from("w");
        let mut rest = number + 7;
        while rest > 0 {
            word.push(['b', 'd', 'k', 'l', 'm', 'n', 'p', 'r', 't', 'z'][(rest % 10) as usize]);
            word.push(['a', 'o', 'u', 'i'][(rest % 4) as usize]);
            rest /= 10;
        }
        word
    }

    pub(super) fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn file(&mut self) -> String {
        let number = self.next() % FILES;
        format!("src/part{}/file{number}.rs", number % 60)
    }
}
