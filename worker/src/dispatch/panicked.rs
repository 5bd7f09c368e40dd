//! A panic of the worker in the middle of a dispatch. It costs that attempt but never the slot, and no lease
//! stays held.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ralph_shared::wire::{Assignment, Ended, Finished, Work};

use super::{failed, report, spool};
use crate::dispatch::unpushed::redactor;
use crate::instance::Instance;
use crate::{dispatch::outgoing, session};

/// Reports a dispatch that panicked as an error of its attempt, and releases it. The loop for unpushed work
/// pushes its session's changes. If the panic came after the report, the report stays as it is.
pub(in crate::dispatch) async fn report_panicked(
    instance: &Instance,
    assignment: &Assignment,
    began: Instant,
    panic: Box<dyn Any + Send>,
) {
    let dispatch = assignment.dispatch;
    let message = format!("the worker failed: {}", words(&*panic));
    drop(panic);
    tracing::error!(%dispatch, task = %assignment.task, message, "a dispatch panicked; its slot continues");
    // The session may not have ended its own processes.
    let mark = dispatch.0.to_string();
    let killed = tokio::task::spawn_blocking(move || session::kill_leftovers(&mark)).await;
    if !matches!(killed, Ok(0)) {
        tracing::warn!(%dispatch, ?killed, "ended leftover processes of a dispatch that panicked");
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

/// The end of the dispatch, with its session's output and usage if the session had ended.
fn finished(instance: &Instance, assignment: &Assignment, message: String) -> Finished {
    let output = instance
        .outputs
        .of(assignment.dispatch)
        .map(|output| output.finished);
    match (&assignment.work, output) {
        (Work::Session(_), Some(Finished::Session(mut session))) => {
            session.ended = Ended::Workspace { message, away: false };
            Finished::Session(session)
        }
        (work, _) => failed(work, message, false),
    }
}

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
    fn a_panics_message_is_reported() {
        let check = |panics: &dyn Fn(), expected| {
            let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
            assert_eq!(words(&*panic), expected);
        };
        check(&|| panic!("fixed"), "fixed");
        check(&|| panic!("the number {}", 7), "the number 7");
        check(&|| panic_any(7), "it didn't say why; its log may");
    }
}
