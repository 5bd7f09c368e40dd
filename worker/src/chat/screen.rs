//! The conversation on standard output. Output errors don't concern the session.

use std::io::Write as _;

use ralph_shared::terminal::transcript::TranscriptText;
use ralph_shared::terminal::{Paint, Tone};
use ralph_shared::wire::{TranscriptEntry, TranscriptUpdate};

#[derive(Debug)]
pub struct Screen(TranscriptText);

impl Screen {
    pub fn new(paint: Paint) -> Self {
        Self(TranscriptText::new(paint))
    }

    pub fn show(&mut self, entries: &[TranscriptEntry]) {
        let updates = entries.iter().map(|entry| &entry.update);
        // The person sees both without a line.
        let told = updates.filter(|update| {
            !matches!(
                update,
                TranscriptUpdate::Session { .. } | TranscriptUpdate::Ended { .. }
            )
        });
        let text: String = told.map(|update| self.0.add(update)).collect();
        print(&text);
    }

    /// Prints one of Ralph's own lines.
    pub fn say(&mut self, tone: Tone, words: &str) {
        print(&self.0.line(tone, words));
    }

    pub fn close(&mut self) {
        print(&self.0.close());
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
