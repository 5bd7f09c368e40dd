//! Progress as a bar with the running sessions below it.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ralph_api::view::Progress;
use ralph_shared::terminal::{Paint, Tone, tame};

use super::lines::Failures;
use crate::cost::format;
use crate::terminal::condition;
use crate::terminal::duration::show_ms;
use crate::terminal::plural::done_of;
use crate::terminal::table::clip;

/// Interval of the bar's animation.
const TICK: Duration = Duration::from_millis(120);
/// Sessions listed below the bar.
const NAMED: usize = 8;
/// Columns for the reasons why tasks wait.
const WAITING_WIDTH: usize = 300;
/// Columns for a session's title.
const TITLE_WIDTH: usize = 50;

/// A progress bar on standard error.
pub struct Bar {
    bar: ProgressBar,
    began: Instant,
    /// The last progress, and when it arrived.
    last: Option<(Progress, Instant)>,
    /// Number of resolved tasks at the start.
    first: Option<i64>,
    failures: Failures,
    paint: Paint,
}

impl Bar {
    /// An empty, animated bar.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{bar:30}] {elapsed} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            began: Instant::now(),
            last: None,
            first: None,
            failures: Failures::default(),
            paint: Paint::stderr(),
        }
    }

    /// Updates the bar with new progress.
    pub fn show(&mut self, progress: &Progress) {
        for line in self.failures.new_lines(progress) {
            self.say(&self.paint.apply(Tone::Warn, &line));
        }
        self.last = Some((progress.clone(), Instant::now()));
        self.tick();
    }

    /// Updates the elapsed times.
    pub fn tick(&mut self) {
        let Some((progress, at)) = self.last.take() else {
            return;
        };
        self.draw(&progress, i64::try_from(at.elapsed().as_millis()).unwrap_or(0));
        self.last = Some((progress, at));
    }

    fn draw(&mut self, progress: &Progress, since_ms: i64) {
        let feature = &progress.feature;
        let tasks = &feature.tasks;
        let resolved = tasks.resolved();
        let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
        self.bar.set_length(unsigned(tasks.total));
        self.bar.set_position(unsigned(resolved));
        if self.bar.prefix() != feature.name {
            self.bar.set_prefix(feature.name.clone());
        }
        let first = *self.first.get_or_insert(resolved);
        #[allow(clippy::cast_precision_loss)]
        let rate = (resolved - first) as f64 / self.began.elapsed().as_secs_f64().max(1.0) * 60.0;
        let mut facts = vec![done_of(tasks), format!("{} running", tasks.in_progress)];
        if tasks.failed > 0 {
            facts.push(self.paint.apply(Tone::Bad, &format!("{} failed", tasks.failed)));
        }
        if rate > 0.0 {
            facts.push(format!("{rate:.1}/min"));
        }
        if let Some(run) = &feature.run {
            facts.push(format::of_run(run));
        }
        if feature.condition.to_string() != "running" {
            let tone = condition::tone(&feature.condition);
            facts.push(self.paint.apply(tone, &condition::words(&feature.condition)));
        }
        let mut message = facts.join(", ");
        for session in progress.sessions.iter().take(NAMED) {
            let title = clip(&tame(&session.title).replace('\n', " "), TITLE_WIDTH);
            let line = format!(
                "\n  {} {:9} {title}  {}",
                session.task,
                session.kind.into_str(),
                show_ms(session.elapsed_ms + since_ms)
            );
            message.push_str(&self.paint.apply(Tone::Dim, &line));
        }
        if let Some(reason) = &feature.held_by_limit {
            let line = clip(&tame(reason), WAITING_WIDTH);
            message.push_str(&self.paint.apply(Tone::Warn, &format!("\n  {line}")));
        }
        for waiting in progress.waiting.iter().take(NAMED) {
            let line = clip(&tame(&waiting.to_string()), WAITING_WIDTH);
            message.push_str(&self.paint.apply(Tone::Warn, &format!("\n  {line}")));
        }
        self.bar.set_message(message);
    }

    /// Prints a line above the bar; while the bar is hidden, prints it directly.
    pub fn say(&self, text: &str) {
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Hides and stops the bar while the person types, or restarts it.
    pub fn hold(&self, still: bool) {
        if still {
            self.bar.disable_steady_tick();
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        } else {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(TICK);
        }
    }

    /// Removes the bar.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
