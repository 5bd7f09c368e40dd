//! Filters that a repository's attributes name (git-crypt, nbstripout, …). Git passes files unchanged through
//! a filter that it doesn't know or that fails, so it would push plain text instead of encrypted files. So
//! every filter must be known here, and every known filter must succeed.
//!
//! A filter that the feature's base names is a person's choice, and another worker may know it. If the
//! attempt itself names a filter, its agent gets the error and can remove it.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::error::GitError;
use crate::workspace::git::Git;
use crate::workspace::git::trouble::Trouble;

/// Pattern of filter settings in the user's own configuration.
pub(in crate::workspace) const OF_USER: &str = r"^filter\..*\.(clean|smudge|process)$";
/// The filter of Git LFS, which has rules of its own.
const LFS: &str = "lfs";

/// A filter of the worker's configuration, with its commands in git's syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterRule {
    /// The name in attributes.
    pub name: String,
    /// Command for a file that is stored.
    pub clean: Option<String>,
    /// Command for a file that is checked out.
    pub smudge: Option<String>,
    /// One program for both directions and many files.
    pub process: Option<String>,
}

/// Settings for git: the worker's own filters, and `required` for all `known` ones. A direction without a
/// command changes nothing.
pub(in crate::workspace) fn settings(
    known: &[(String, String)],
    own: &[FilterRule],
) -> Vec<(String, String)> {
    let mut of_name: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, command) in known {
        let Some((name, verb)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) else {
            continue;
        };
        if !command.is_empty() {
            of_name
                .entry(name.to_owned())
                .or_default()
                .insert(verb.to_owned());
        }
    }
    let mut settings = Vec::new();
    for rule in own {
        let verbs = [
            ("clean", &rule.clean),
            ("smudge", &rule.smudge),
            ("process", &rule.process),
        ];
        for (verb, command) in verbs {
            if let Some(command) = command {
                settings.push((format!("filter.{}.{verb}", rule.name), command.clone()));
                of_name
                    .entry(rule.name.clone())
                    .or_default()
                    .insert(verb.to_owned());
            }
        }
    }
    for (name, verbs) in of_name.iter().filter(|(name, _)| *name != LFS) {
        if !verbs.contains("process") {
            let missing = ["clean", "smudge"]
                .into_iter()
                .filter(|verb| !verbs.contains(*verb));
            settings.extend(missing.map(|verb| (format!("filter.{name}.{verb}"), "cat".to_owned())));
        }
        settings.push((format!("filter.{name}.required"), "true".to_owned()));
    }
    settings
}

/// The filters besides Git LFS that apply to files in the work tree, each with one such file.
async fn used(git: &Git) -> Result<BTreeMap<String, String>, GitError> {
    let attributes = git
        .run("ls-files")
        .args(["-z", "--cached", "--others", "--", ":(glob)**/.gitattributes"])
        .first_bytes(1)
        .output()
        .await?;
    if attributes.stdout.is_empty() {
        return Ok(BTreeMap::new());
    }
    let listed = git
        .run("ls-files")
        .args(["-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .await?;
    listed.must_be_whole("ls-files")?;
    let asked = git
        .run("check-attr")
        .args(["-z", "--stdin", "filter"])
        .input(listed.stdout)
        .output()
        .await?;
    asked.must_be_whole("check-attr")?;
    let mut fields = asked.stdout.split(|byte| *byte == 0);
    let mut used = BTreeMap::new();
    while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        let value = String::from_utf8_lossy(value).into_owned();
        if !matches!(value.as_str(), "unspecified" | "unset" | "set" | LFS) {
            used.entry(value)
                .or_insert_with(|| String::from_utf8_lossy(path).into_owned());
        }
    }
    Ok(used)
}

fn refused(trouble: Trouble, filter: &str, path: &str, why: &str) -> GitError {
    let whose = match trouble {
        Trouble::OwnFilter => ", which the attempt names itself and",
        _ => ", which",
    };
    GitError {
        command: "check-attr".to_owned(),
        trouble,
        words: format!("`{path}` has to go through the filter `{filter}`{whose} {why}"),
        code: None,
    }
}

/// The attempt is at fault for a filter that the attributes of `base` don't name. If `base` isn't here, that
/// is unknown, and the attempt isn't blamed.
async fn trouble(git: &Git, base: &str, filter: &str) -> Result<Trouble, GitError> {
    let wanted = format!("filter={filter}");
    let options = [
        "-q",
        "--fixed-strings",
        "-e",
        &wanted,
        base,
        "--",
        ":(glob)**/.gitattributes",
    ];
    let found = git
        .run("grep")
        .args(options)
        .accept(&[0, 1, 128])
        .output()
        .await?;
    Ok(match found.code {
        1 => Trouble::OwnFilter,
        _ => Trouble::Filter,
    })
}

/// A filter that git doesn't know here, with one of its files.
async fn unknown(git: &Git) -> Result<Option<(String, String)>, GitError> {
    let known = &git.environment().filters;
    let mut used = used(git).await?.into_iter();
    Ok(used.find(|(filter, _)| {
        let required = format!("filter.{filter}.required");
        !known.iter().any(|(key, _)| *key == required)
    }))
}

const UNKNOWN: &str = "git doesn't know on this worker";

/// Refuses a checkout with files whose filter git doesn't know here.
///
/// # Errors
/// When there is such a file, or git fails.
pub(in crate::workspace) async fn must_be_known(git: &Git) -> Result<(), GitError> {
    match unknown(git).await? {
        Some((filter, path)) => Err(refused(Trouble::Filter, &filter, &path, UNKNOWN)),
        None => Ok(()),
    }
}

/// As [`must_be_known`], for an attempt's work tree.
///
/// # Errors
/// When there is such a file, or git fails.
pub(in crate::workspace) async fn must_be_known_since(git: &Git, base: &str) -> Result<(), GitError> {
    match unknown(git).await? {
        Some((filter, path)) => Err(refused(
            trouble(git, base, &filter).await?,
            &filter,
            &path,
            UNKNOWN,
        )),
        None => Ok(()),
    }
}

/// Refuses an attempt's work tree with files that have a filter, because they could only be stored without
/// it.
///
/// # Errors
/// When there is such a file, or git fails.
pub(in crate::workspace) async fn must_be_none(git: &Git, base: &str) -> Result<(), GitError> {
    let Some((filter, path)) = used(git).await?.pop_first() else {
        return Ok(());
    };
    let why = "fails, so the file can't be stored";
    Err(refused(trouble(git, base, &filter).await?, &filter, &path, why))
}

/// Refuses a checkout in which git could not encode a file as its attributes ask (`working-tree-encoding`).
///
/// # Errors
/// When git reports that: the file would differ from every other checkout.
pub(in crate::workspace) fn must_be_encoded(words: &[u8]) -> Result<(), GitError> {
    let words = String::from_utf8_lossy(words);
    match words.lines().find(|line| line.contains("failed to encode '")) {
        None => Ok(()),
        Some(line) => Err(GitError {
            command: "read-tree".to_owned(),
            trouble: Trouble::Filter,
            words: format!("{line} (this worker's git doesn't support that `working-tree-encoding`)"),
            code: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn every_known_filter_is_required() {
        let known = [
            pair("filter.strip.clean", "strip"),
            pair("filter.whole.process", "whole"),
            pair("filter.lfs.clean", "git-lfs clean"),
            pair("filter.none.clean", ""),
        ];
        let own = [FilterRule {
            name: "crypt".to_owned(),
            clean: Some("crypt -e".to_owned()),
            smudge: Some("crypt -d".to_owned()),
            process: None,
        }];
        let expected = [
            pair("filter.crypt.clean", "crypt -e"),
            pair("filter.crypt.smudge", "crypt -d"),
            pair("filter.crypt.required", "true"),
            pair("filter.strip.smudge", "cat"),
            pair("filter.strip.required", "true"),
            pair("filter.whole.required", "true"),
        ];
        assert_eq!(settings(&known, &own), expected);
    }

    #[test]
    fn an_error_names_an_unsupported_encoding() {
        assert!(must_be_encoded(b"warning: else\n").is_ok());
        let error = must_be_encoded(b"error: failed to encode 'a.txt' from UTF-8 to NONE\n").unwrap_err();
        assert!(
            error.to_string().contains("'a.txt' from UTF-8 to NONE"),
            "{error}"
        );
    }
}
