//! A fault of the worker itself in the middle of a dispatch: it costs that attempt, never the slot, and holds nothing.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ralph_shared::wire::{Assignment, Ended, Finished, Work};

use super::{failed, report, spool};
use crate::dispatch::unpushed::redactor;
use crate::instance::Instance;
use crate::{dispatch::outgoing, session};

/// Reports a dispatch that panicked as an error of its attempt, and lets go of it. What its session left is pushed by the one who
/// looks for such work. A panic behind the report changes nothing of that.
pub(in crate::dispatch) async fn report_panicked(
    instance: &Instance,
    assignment: &Assignment,
    began: Instant,
    panic: Box<dyn Any + Send>,
) {
    let dispatch = assignment.dispatch;
    let message = format!("the worker failed: {}", words(&*panic));
    drop(panic);
    tracing::error!(%dispatch, task = %assignment.task, message, "a dispatch panicked; its slot goes on");
    // Its session may not have come to end what it began.
    let mark = dispatch.0.to_string();
    let killed = tokio::task::spawn_blocking(move || session::kill_leftovers(&mark)).await;
    if !matches!(killed, Ok(0)) {
        tracing::warn!(%dispatch, ?killed, "ended what a dispatch that panicked left running");
    }
    let is_reported = !instance.is_running(dispatch) || instance.spool.dispatches().contains(&dispatch);
    if !is_reported {
        let finished = outgoing::redacted(&redactor(instance), finished(instance, assignment, message));
        spool(instance, &report(instance, dispatch, began.elapsed(), finished)).await;
    }
    instance.unpushed.store(true, Ordering::Relaxed);
    instance.ended(dispatch);
    instance.forget(dispatch);
}

/// How it ended, with what its session said and used as far as it had come to its own end.
fn finished(instance: &Instance, assignment: &Assignment, message: String) -> Finished {
    let said = instance.outputs.of(assignment.dispatch).map(|said| said.finished);
    match (&assignment.work, said) {
        (Work::Session(_), Some(Finished::Session(mut session))) => {
            session.ended = Ended::Workspace { message, away: false };
            Finished::Session(session)
        }
        (work, _) => failed(work, message, false),
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let fixed = panic.downcast_ref::<&str>().copied();
    fixed
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it didn't say why; its log may")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

    use super::*;

    #[test]
    fn a_panic_is_told_in_its_own_words() {
        let check = |panics: &dyn Fn(), expected| {
            let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
            assert_eq!(words(&*panic), expected);
        };
        check(&|| panic!("fixed"), "fixed");
        check(&|| panic!("the number {}", 7), "the number 7");
        check(&|| panic_any(7), "it didn't say why; its log may");
    }
}
