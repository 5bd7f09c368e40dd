//! What starts, and how long it took, on standard error.

use std::io::{self, Write as _};
use std::time::Instant;

use ralph_cli::terminal::color::{Paint, Tone};

/// A line on standard error. A terminal that is gone, or a pipe that nobody reads, ends nothing.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Tells the steps of a start.
#[derive(Debug)]
pub struct Steps {
    paint: Paint,
    began: Instant,
}

impl Steps {
    /// The clock begins.
    pub fn new() -> Self {
        Self {
            paint: Paint::stderr(),
            began: Instant::now(),
        }
    }

    /// Does a step and tells it.
    ///
    /// # Errors
    /// The step's.
    pub async fn step<T, E>(
        &self,
        what: &str,
        step: impl Future<Output = Result<(T, String), E>>,
    ) -> Result<T, E> {
        let began = Instant::now();
        tell(&self.paint.apply(Tone::Dim, &format!("{what} …")));
        let (value, detail) = step.await?;
        tell(&format!(
            "{} {what} {} {}",
            self.paint.apply(Tone::Good, "✓"),
            detail,
            self.paint
                .apply(Tone::Dim, &format!("({:.1} s)", began.elapsed().as_secs_f64()))
        ));
        Ok(value)
    }

    /// How long all of it took. Seconds.
    pub fn took(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}
