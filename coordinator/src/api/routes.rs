//! All routes, grouped by the role that they need. The OpenAPI document comes from the same lines, so both
//! always match.

use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{OpenApi, SecurityRequirement};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::openapi::SECURITY;
use super::{
    changes, costs, features, follow, health, hooks, inbox, logins, memory, metrics, news, operations,
    schedules, submit, system, tasks, tokens, transcript,
};
use crate::api::http::app::App;
use crate::api::tasks::run_alone;
use crate::api::{
    features::{edit, retention, texts},
    http::{access, audit, idempotency, locate},
    memory::restore,
    openapi::routes,
    tasks::dependencies,
};
use crate::store::access::Role;

/// All routes, each with the check of its role.
pub fn all(app: &App) -> axum::Router<App> {
    // The last layer is the first to see a request.
    let reads = reads()
        .route_layer(from_fn(locate::with_repository))
        .route_layer(from_fn_with_state(app.clone(), access::may_read));
    let figures = figures().route_layer(from_fn_with_state(app.clone(), access::may_read));
    let submits = submits()
        .route_layer(from_fn_with_state(app.clone(), audit::record))
        .route_layer(from_fn(locate::with_repository))
        .route_layer(from_fn_with_state(app.clone(), idempotency::idempotent))
        .route_layer(from_fn_with_state(app.clone(), access::may_submit));
    let administers = administers()
        .route_layer(from_fn_with_state(app.clone(), audit::record))
        .route_layer(from_fn(locate::with_repository))
        .route_layer(from_fn_with_state(app.clone(), idempotency::idempotent))
        .route_layer(from_fn_with_state(app.clone(), access::may_administer));
    assemble(reads, submits, administers, figures).split_for_parts().0
}

/// The descriptions of the routes; [`super::openapi`] completes them.
pub fn description() -> OpenApi {
    assemble(reads(), submits(), administers(), figures()).into_openapi()
}

fn assemble(
    reads: OpenApiRouter<App>,
    submits: OpenApiRouter<App>,
    administers: OpenApiRouter<App>,
    figures: OpenApiRouter<App>,
) -> OpenApiRouter<App> {
    let versioned = needs(Role::Read, reads)
        .merge(needs(Role::Submit, submits))
        .merge(needs(Role::Admin, administers));
    OpenApiRouter::new()
        .nest("/api/v1", versioned)
        .merge(needs(Role::Read, figures))
        .merge(open())
}

fn reads() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(system::status))
        .routes(routes!(inbox::show))
        .routes(routes!(inbox::log))
        .routes(routes!(system::workers))
        .routes(routes!(system::worker))
        .routes(routes!(system::config))
        .routes(routes!(system::runs))
        .routes(routes!(system::run))
        .routes(routes!(costs::costs))
        .routes(routes!(costs::budgets))
        .routes(routes!(costs::estimate))
        .routes(routes!(features::list))
        .routes(routes!(schedules::list))
        .routes(routes!(features::show))
        .routes(routes!(features::progress))
        .routes(routes!(texts::show))
        .routes(routes!(features::tasks))
        .routes(routes!(features::landings))
        .routes(routes!(features::examined))
        .routes(routes!(features::events))
        .routes(routes!(news::events))
        .routes(routes!(logins::create))
        .routes(routes!(changes::of_feature))
        .routes(routes!(changes::all))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::show))
        .routes(routes!(tasks::tree))
        .routes(routes!(tasks::log))
        .routes(routes!(transcript::prompt))
        .routes(routes!(transcript::show))
        .routes(routes!(follow::events))
        .routes(routes!(memory::explain))
        .routes(routes!(memory::preview))
        .routes(routes!(memory::list))
        .routes(routes!(memory::report))
        .routes(routes!(memory::search))
        .routes(routes!(memory::show))
}

fn submits() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(submit::feature))
        .routes(routes!(features::run))
        .routes(routes!(features::build))
        .routes(routes!(features::review))
        .routes(routes!(texts::store))
        .routes(routes!(edit::edit))
        .routes(routes!(schedules::set, schedules::pause, schedules::remove))
        .routes(routes!(features::pause))
        .routes(routes!(features::resume))
        .routes(routes!(features::stop))
        .routes(routes!(features::cancel))
        .routes(routes!(operations::update))
        .routes(routes!(operations::merge))
        .routes(routes!(retention::prune))
        .routes(routes!(submit::task))
        .routes(routes!(tasks::edit))
        .routes(routes!(operations::revert))
        .routes(routes!(dependencies::add))
        .routes(routes!(dependencies::remove))
        .routes(routes!(run_alone::run))
        .routes(routes!(tasks::answer))
        .routes(routes!(tasks::command))
        .routes(routes!(memory::add))
        .routes(routes!(memory::import))
        .routes(routes!(memory::prune))
        .routes(routes!(restore::restore))
        .routes(routes!(memory::edit))
        .routes(routes!(memory::revoke))
}

fn administers() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(system::drain))
        .routes(routes!(system::forget))
        .routes(routes!(costs::set_budget))
        .routes(routes!(features::remove))
        .routes(routes!(tasks::remove))
        .routes(routes!(memory::purge))
        .routes(routes!(memory::resume))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(hooks::list, hooks::create))
        .routes(routes!(hooks::remove))
}

fn figures() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(metrics::metrics))
}

/// Routes without a token.
fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(routes::document))
        .routes(routes!(routes::page))
        .routes(routes!(hooks::fire))
}

/// Records the role of each route of a group.
fn needs(role: Role, mut group: OpenApiRouter<App>) -> OpenApiRouter<App> {
    for operation in group
        .get_openapi_mut()
        .paths
        .paths
        .values_mut()
        .flat_map(operations)
    {
        operation.security = Some(vec![SecurityRequirement::new(SECURITY, [role.into_str()])]);
    }
    group
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ]
    .into_iter()
    .filter_map(Option::as_mut)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    /// The router's routes, from its debug output: `RouteId(1): "/api/v1/status"`.
    fn routed() -> BTreeSet<String> {
        let router = assemble(reads(), submits(), administers(), figures())
            .split_for_parts()
            .0;
        let debug = format!("{router:?}");
        let paths = debug.split('"').filter(|text| text.starts_with('/'));
        // Two entries belong to the fallback.
        let own = paths.filter(|path| *path != "/" && !path.contains("__private__axum_fallback"));
        own.map(str::to_owned).collect()
    }

    #[test]
    fn the_openapi_document_has_exactly_the_routes_of_the_router() {
        let described: BTreeSet<String> = description().paths.paths.into_keys().collect();
        assert!(described.len() > 40, "{described:?}");
        assert_eq!(routed(), described);
    }
}
