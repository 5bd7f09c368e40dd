//! Prints the steps of a start, with their durations, on standard error.

use std::io::{self, Write as _};
use std::time::Instant;

use ralph_shared::terminal::{Paint, Tone};

/// Prints a line on standard error. Ignores a closed terminal and a pipe without a reader.
pub fn report(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[derive(Debug)]
pub struct Steps {
    paint: Paint,
    began: Instant,
}

impl Steps {
    pub fn new() -> Self {
        Self {
            paint: Paint::stderr(),
            began: Instant::now(),
        }
    }

    /// Runs a step and prints its name, result and duration.
    pub async fn step<T, E>(
        &self,
        what: &str,
        step: impl Future<Output = Result<(T, String), E>>,
    ) -> Result<T, E> {
        let began = Instant::now();
        report(&self.paint.apply(Tone::Dim, &format!("{what} …")));
        let (value, detail) = step.await?;
        report(&format!(
            "{} {what} {} {}",
            self.paint.apply(Tone::Good, "✓"),
            detail,
            self.paint
                .apply(Tone::Dim, &format!("({:.1} s)", began.elapsed().as_secs_f64()))
        ));
        Ok(value)
    }

    /// Time since the start. Seconds.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}
