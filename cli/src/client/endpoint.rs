//! Finding the coordinator: from flags and variables, else from the file of a running `up` in its data
//! folder (SPEC 9.1).

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::args::globals::Globals;
use crate::machine::datadir::Published;

/// An address and the token for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Without a trailing slash.
    pub url: String,
    pub token: String,
}

/// Finds the coordinator. A given token is sent only to a given address, or to the `up` of a given data
/// folder.
///
/// # Errors
/// When nothing was given and no `up` runs; the message says what to do.
pub fn find(globals: &Globals) -> anyhow::Result<Endpoint> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (url, token) = (given(&globals.url), given(&globals.token));
    if let (Some(url), Some(token)) = (&url, &token) {
        return Ok(endpoint(url, token.clone()));
    }
    if url.is_none() && token.is_some() && globals.data.is_none() {
        // Otherwise anyone who can plant such a file would receive the token.
        bail!(
            "there is a token (RALPH_TOKEN or --token), but no address to use it for: set RALPH_URL, or unset RALPH_TOKEN to \
             use the `up` that runs here"
        );
    }
    let published = published(globals.data.as_deref())?;
    match (url, token, published) {
        (Some(url), None, Some(found)) if same(&url, &found.url) => Ok(endpoint(&url, found.token)),
        (Some(url), _, _) => bail!("a token for {url} is needed: set RALPH_TOKEN"),
        (None, token, Some(found)) => Ok(endpoint(&found.url, token.unwrap_or(found.token))),
        (None, _, None) => match &globals.data {
            Some(data) => bail!(
                "nothing runs in the data folder {}; start it with `ralph-coordinator up --data {0}`",
                data.display()
            ),
            None => bail!(
                "found no running coordinator: start one with `ralph-coordinator up`, or name one with --url and RALPH_TOKEN \
                 (looked for the .ralph/ of a running one here and in the folders above)"
            ),
        },
    }
}

/// Reads the endpoint that the `up` of this data folder published, else that of an `up` in the current
/// folder or above.
pub fn published(data: Option<&Path>) -> anyhow::Result<Option<Published>> {
    match data {
        Some(data) => Ok(Published::read(data)?),
        None => {
            let here = std::env::current_dir().context("failed to find the current folder")?;
            Ok(Published::find(&here)?)
        }
    }
}

fn endpoint(url: &str, token: String) -> Endpoint {
    Endpoint {
        url: url.trim_end_matches('/').to_owned(),
        token,
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
