//! An entry's source, age and confirmations, in a few words (SPEC 6.8).

use minijinja::context;

use crate::prompt::templates::Templates;
use crate::prompt::values::Provenance;

pub(super) fn provenance(templates: &Templates, standing: &Provenance) -> String {
    templates.part(
        "standing",
        context! {
            id => standing.id.as_str(),
            task => standing.task.as_deref(),
            unverified => standing.unverified,
            days => standing.days,
            witnesses => standing.witnesses,
        },
    )
}
