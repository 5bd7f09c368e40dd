//! Edits features.

use axum::Json;
use axum::extract::State;

use crate::api::body::{Done, EditFeature, RunOptions};
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::api::submit::{checked_retries, checked_rounds, invalid_settings};
use crate::api::tasks::command_result;
use crate::domain::run::RunSettings;
use crate::flow::control::By;
use crate::flow::edit;
use crate::store;
use crate::store::edit::FeatureEdit;

/// Edits a feature: the change applies to sessions that start from now on. Live sessions continue unchanged.
#[utoipa::path(
    patch,
    path = "/features/{id}",
    operation_id = "edit_feature",
    tag = "features",
    request_body = EditFeature,
    responses((status = 200, body = Done))
)]
pub async fn edit(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Body(body): Body<EditFeature>,
) -> Result<Json<Done>, Problem> {
    if body == EditFeature::default() {
        return Err(Problem::refused(
            "there is nothing to change; name at least one field",
        ));
    }
    let by = By {
        resumes: body.resume.unwrap_or(true),
        ..By::from(caller.name())
    };
    let (change, before, options) = checked(body)?;
    let ceilings = &app.deps.settings.ceilings;
    options.check(ceilings).map_err(invalid_settings)?;
    // Checks the options alone, regardless of the settings that they change.
    options.settings(0).map_err(invalid_settings)?;
    let changed = |now: &RunSettings| -> Result<RunSettings, String> {
        let settings = options
            .clone()
            .after(now)
            .settings(0)
            .map_err(|bad| bad.to_string())?;
        let mut settings = settings.within(ceilings);
        if options.iterations.is_none() {
            // The request omits iterations, so the limit is neither recounted nor marked as chosen.
            settings.max_iterations = now.max_iterations;
            settings.limit_grows = now.limit_grows;
        }
        Ok(settings)
    };
    let changes_run = options != RunOptions::default();
    let run: Option<edit::SettingsChange<'_>> = if changes_run { Some(&changed) } else { None };
    let feature = locate::feature(&mut *app.db().await?, &id).await?;
    let (db, before) = (&app.deps.db, before.as_deref());
    let edited = || edit::feature(db, feature, &change, before, run, by);
    command_result(&app, store::retry_serialization(edited).await?, "feature").await
}

/// The edit, the description that it started from, and the changed run options.
fn checked(body: EditFeature) -> Result<(FeatureEdit, Option<String>, RunOptions), Problem> {
    if body.max_parallel.is_some_and(|n| n < 1) {
        return Err(Problem::invalid("`max_parallel` must be at least 1"));
    }
    let change = FeatureEdit {
        description: body.description,
        max_parallel: body.max_parallel,
        review_rounds: body.review_rounds.map(checked_rounds).transpose()?,
        max_retries: match body.max_retries {
            None => None,
            change => Some(checked_retries(change)?),
        },
        verify: body.verify,
        precedence: body.precedence.checked().map_err(Problem::refused)?,
    };
    Ok((change, body.before, body.run))
}
