//! `open`: a link that logs a browser in to the page.

use std::process::ExitCode;

use clap::Args;
use ralph_api::body::CreatedLogin;
use serde::Serialize;
use serde_json::json;

use crate::args::globals::Globals;
use crate::client::Client;
use crate::terminal::output;

/// Print a link that opens the page in a browser, logged in
///
/// The link works once, within five minutes. The page has the rights of the token that made the link: that
/// of the running `up`, or RALPH_TOKEN. The login lasts seven days.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph open
  xdg-open \"$(ralph open)\"")]
pub struct OpenArgs {}

/// A link that logs a browser in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Link {
    /// Shown only once.
    pub url: String,
    /// Expiry of the link.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: time::OffsetDateTime,
}

pub async fn run(globals: &Globals, _: OpenArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let login: CreatedLogin = client.post("/logins", &json!({})).await?;
    let link = Link {
        url: format!("{}{}", client.url(), login.path),
        expires_at: login.expires_at,
    };
    output::answer(globals.output, &link, &format!("{}\n", link.url))?;
    Ok(ExitCode::SUCCESS)
}
