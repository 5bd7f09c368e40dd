//! Loop Status: all or nothing (SPEC 6.2, 6.6).

use minijinja::context;

use crate::prompt::sections::budget::{CharBudget, Written};
use crate::prompt::templates::Templates;
use crate::prompt::text::line;
use crate::prompt::values::LoopStatus;

pub(in crate::prompt) fn status(
    templates: &Templates,
    status: &LoopStatus,
    attempt: i32,
    allowed: usize,
) -> Option<Written> {
    let text = templates.part(
        "status",
        context! {
            iteration => status.iteration,
            limit => status.limit,
            attempt,
            failures => status.failures,
            model => status.model.as_deref().map(|model| line(model, 60)),
            model_reason => status.model_reason.as_deref().map(|why| line(why, 120)),
            stuck => status.stuck,
            same_again => status.same_again,
        },
    );
    CharBudget::new(allowed).take(&text, 0).then_some(Written {
        text,
        shown: Vec::new(),
    })
}
