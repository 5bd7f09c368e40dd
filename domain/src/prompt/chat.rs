//! The prompt of an agent that writes a text of a feature with a person.

use minijinja::context;

use super::templates::Templates;

/// A feature whose specification or plan is being written.
#[derive(Debug, Clone, Copy)]
pub struct ChatFeature<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// The specification, for a plan.
    pub spec: Option<&'a str>,
    /// The text so far.
    pub stored: Option<&'a str>,
}

/// The first prompt of the session; `which` is `spec` or `plan`.
pub fn first_prompt(templates: &Templates, which: &str, feature: ChatFeature<'_>) -> String {
    let ChatFeature {
        name,
        description,
        spec,
        stored,
    } = feature;
    templates.part(
        &format!("chat/{which}"),
        context! { name, description, spec, stored },
    )
}
