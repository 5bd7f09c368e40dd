//! The routes of the page.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use super::site::Site;
use super::{act, assets, feature, features, inbox, live, log, memory, prompt, settings, task, workers};
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::page::session::visitor::require_login;
use crate::page::session::{guard, login};

/// The routes of the page, which acts through `api`.
pub fn routes(app: App, api: Router) -> Router {
    let site = Site { app, api };
    // Compression would delay events.
    let large = DefaultPredicate::new().and(NotForContentType::SSE);
    let pages = Router::new()
        .route("/", get(inbox::page))
        .route("/log", get(log::page))
        .route("/features", get(features::page))
        .route("/features/{id}", get(feature::page))
        .route("/features/{id}/{part}", get(feature::part))
        .route("/tasks/{id}", get(task::page))
        .route("/tasks/{id}/prompt", get(prompt::page))
        .route("/tasks/{id}/diff", get(task::diff))
        .route("/tasks/{id}/log", get(task::log))
        .route("/tasks/{id}/live", get(live::transcript))
        .route("/workers", get(workers::page))
        .route("/memory", get(memory::page))
        .route("/memory/{id}", get(memory::entry))
        .route("/settings", get(settings::page))
        .route("/live", get(live::changes))
        .route("/do/{kind}/{verb}", post(act::act))
        .route("/logout", post(login::log_out))
        .route_layer(from_fn(locate::with_repository))
        .route_layer(from_fn_with_state(site.clone(), require_login));
    pages
        .route("/login", get(login::form).post(login::log_in))
        .route("/me", get(login::is_logged_in))
        .route("/assets/{name}", get(assets::file))
        .layer(CompressionLayer::new().compress_when(large))
        .layer(from_fn_with_state(site.clone(), guard::guarded))
        .with_state(site)
}
