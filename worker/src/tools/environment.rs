//! The environment of every sandboxed process. Sessions, setup and gates share it, so that a command that
//! works in one works in all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::find::Tools;
use crate::sandbox::{Sandbox, shared_path};

/// Variables of the user that every process gets, unless they contain a login. The broker's and the
/// database's are never among them (DESIGN 5).
const PASSED: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];

#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The session's own folder, if there is one.
    pub session_folder: Option<&'a Path>,
    pub home: &'a Path,
    pub tmp: &'a Path,
    pub sandbox: &'a Sandbox,
    pub tools: &'a Tools,
}

/// The environment of a process, without an agent's keys and a work's ports.
pub async fn environment(around: Surroundings<'_>) -> io::Result<BTreeMap<OsString, OsString>> {
    let Surroundings {
        session_folder,
        home,
        tmp,
        sandbox,
        tools,
    } = around;
    let network = sandbox.network.variables().await?;
    let usual = PASSED.iter().filter_map(|name| Some((*name, tools.own(name)?)));
    let locale = tools
        .own
        .iter()
        .filter(|(name, _)| name.to_string_lossy().starts_with("LC_"));
    let has_cargo = tools.found.iter().any(|found| found.tool.name == "cargo");
    let cargo_home = session_folder
        .filter(|_| has_cargo)
        .and_then(|folder| shared_path(sandbox, folder, &home.join(".cargo")));
    let named = usual
        .chain(tools.passed())
        .chain(tools.set())
        .chain(cargo_home.map(|home| ("CARGO_HOME", home.into())))
        .chain(network.into_iter().map(|(name, value)| (name, value.into())))
        .chain([("HOME", home.into()), ("TMPDIR", tmp.into())])
        .map(|(name, value)| (name.into(), value));
    let asked_for = sandbox
        .passed
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    Ok(locale
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(named)
        .chain(asked_for)
        .collect())
}
