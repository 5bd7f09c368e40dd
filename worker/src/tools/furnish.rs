//! Fills a private HOME from the user's: settings without secrets, and read-only links to downloads.
//!
//! Existing files stay, and no link is followed out of the home: a program may have worked in it before.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use base64::Engine as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use super::find::{FoundTool, Tools};
use super::table::{Links, TOOLS};
use crate::session::secret_values;

const SETTINGS_BYTES: u64 = 1024 * 1024;

/// Most bytes copied for one tool.
const MOST_COPIED: u64 = 128 * 1024 * 1024;

/// How much of a lock file is read. Bytes.
const LOCK_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Most links of one folder. Creating more takes longer than most downloads.
const MOST_LINKS: usize = 50_000;

/// npm's cache of package contents, below its home.
const NPM_CACHE: &str = ".npm/_cacache/content-v2";

/// Suffixes of lock files of tools. Each home has its own locks.
const LOCKS: [&str; 3] = [".lock", ".lck", ".part"];

impl Tools {
    /// Fills a private home for work on the checkout `tree`, as far as possible. Files of other programs in
    /// the way stay.
    pub fn furnish(&self, home: &Path, tree: &Path) -> io::Result<()> {
        let home = Dir::open_ambient_dir(home, ambient_authority())?;
        let settings = TOOLS.iter().flat_map(|tool| tool.settings);
        let copied = settings.map(|place| (*place, copy(&self.home, &home, Path::new(place))));
        let linked = self.found.iter().flat_map(|FoundTool { tool, folder }| {
            let links = tool.links.iter();
            links.map(|links| (links.to, link(&folder.join(links.from), &home, links, tree)))
        });
        let npm = self.found.iter().filter(|found| found.tool.name == "npm");
        let npm = npm.map(|found| (NPM_CACHE, link_npm(&found.folder, &home, tree)));
        for (place, done) in copied.chain(linked).chain(npm) {
            if let Err(error) = done {
                tracing::warn!(place, %error, "failed to provide a file of the user's tools in a session's home");
            }
        }
        Ok(())
    }
}

fn copy(user: &Path, home: &Dir, place: &Path) -> io::Result<()> {
    let original = user.join(place);
    let plain = |file: fs::Metadata| file.is_file() && file.len() <= SETTINGS_BYTES;
    if !fs::metadata(&original).is_ok_and(plain) || home.symlink_metadata(place).is_ok() {
        return Ok(());
    }
    let text = without_secrets(&fs::read_to_string(&original)?);
    if let Some(parent) = place.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        home.create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    home.open_with(place, &options)?.write_all(text.as_bytes())
}

/// Removes lines with secrets. Settings of tools are lines: `key = value`, `key: value`.
fn without_secrets(text: &str) -> String {
    let is_secret = |line: &str| {
        let (name, value) = line
            .rsplit_once('=')
            .or_else(|| line.split_once(':'))
            .unwrap_or(("", line));
        let whole = (String::new(), line.to_owned());
        !secret_values([(name.to_owned(), value.to_owned()), whole]).is_empty()
            || line.contains("://") && line.split("://").skip(1).any(has_login)
    };
    let kept = text.lines().filter(|line| !is_secret(line));
    kept.map(|line| format!("{line}\n")).collect()
}

/// Whether an address begins with a login after its scheme.
fn has_login(rest: &str) -> bool {
    let authority = rest.split(['/', '"', '\'', ' ']).next().unwrap_or_default();
    authority.contains('@')
}

fn link(from: &Path, home: &Dir, links: &Links, tree: &Path) -> io::Result<()> {
    let packages = match links.lock {
        "" => None,
        lock => match packages(&tree.join(lock)) {
            Some(packages) => Some(packages),
            None => return Ok(()),
        },
    };
    if !from.is_dir() || home.symlink_metadata(links.to).is_ok() {
        return Ok(());
    }
    home.create_dir_all(links.to)?;
    let to = home.open_dir(links.to)?;
    let mut left = Quota {
        entries: MOST_LINKS,
        bytes: MOST_COPIED,
        packages,
    };
    fill(from, &to, links.levels, &mut left)
}

/// Links the packages in an npm lock file: npm finds a package in its cache by the hash of its content.
fn link_npm(cache: &Path, home: &Dir, tree: &Path) -> io::Result<()> {
    let Some(text) = lock_file(&tree.join("package-lock.json")) else {
        return Ok(());
    };
    let hashes = text.lines().filter_map(|line| {
        let hash = line.trim().strip_prefix("\"integrity\": \"sha512-")?;
        let hash = hash.trim_end_matches(',').strip_suffix('"')?;
        base64::engine::general_purpose::STANDARD.decode(hash).ok()
    });
    for hash in hashes.filter(|hash| hash.len() > 2).take(MOST_LINKS) {
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = Path::new("sha512").join(&hex[..2]).join(&hex[2..4]);
        let package = cache.join("_cacache/content-v2").join(&folder).join(&hex[4..]);
        let own = Path::new(NPM_CACHE).join(folder);
        if package.is_file() && home.symlink_metadata(own.join(&hex[4..])).is_err() {
            home.create_dir_all(&own)?;
            home.symlink_contents(package, own.join(&hex[4..]))?;
        }
    }
    Ok(())
}

/// The remaining quota of links and copies.
struct Quota {
    entries: usize,
    bytes: u64,
    /// Packages that may be shared. `None` means all.
    packages: Option<HashSet<String>>,
}

impl Quota {
    /// Whether an entry may be shared: in an index a file with a package's name, otherwise `NAME-VERSION…`.
    /// Entries other than packages, such as an index's own settings, may be shared too.
    fn shares(&self, name: &str, in_index: bool) -> bool {
        let Some(packages) = &self.packages else {
            return true;
        };
        match in_index {
            true => packages.contains(name) || name.contains('.'),
            false => name
                .match_indices('-')
                .any(|(at, _)| packages.contains(&name[..at])),
        }
    }
}

/// The beginning of a lock file. `None` if there is none.
fn lock_file(lock: &Path) -> Option<String> {
    // An agent may have written it: a link could lead elsewhere.
    fs::symlink_metadata(lock).ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    fs::File::open(lock)
        .ok()?
        .take(LOCK_FILE_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// The packages in a Cargo lock file, in lower case as in an index. `None` if there is no file.
fn packages(lock: &Path) -> Option<HashSet<String>> {
    let text = lock_file(lock)?;
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    Some(names.map(str::to_lowercase).collect())
}

fn fill(from: &Path, to: &Dir, levels: u32, left: &mut Quota) -> io::Result<()> {
    // Entries that the user can't list are not shared.
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let text = name.to_string_lossy();
        let below = levels > 0 && path.is_dir();
        let unwanted = LOCKS.iter().any(|lock| text.ends_with(lock))
            || !below && !left.shares(&text, levels == u32::MAX);
        if left.entries == 0 || unwanted {
            continue;
        }
        left.entries -= 1;
        if below {
            to.create_dir(&name)?;
            let below = if levels == u32::MAX { levels } else { levels - 1 };
            fill(&path, &to.open_dir(&name)?, below, left)?;
        } else if levels == u32::MAX {
            let bytes = entry.metadata().map_or(u64::MAX, |file| file.len());
            if let Some(rest) = left.bytes.checked_sub(bytes) {
                left.bytes = rest;
                // Shares the blocks if the file system can, never the file.
                Dir::open_ambient_dir(from, ambient_authority())?.copy(&name, to, &name)?;
            }
        } else {
            to.symlink_contents(&path, &name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_copied_without_secrets() {
        let check = |line: &str, kept: bool| assert_eq!(!without_secrets(line).is_empty(), kept, "{line}");
        check("registry=https://npm.example.org/", true);
        check("//npm.example.org/:_authToken=abcdef", false);
        check("_password = x", false);
        check("index-url = https://u:p@pypi.example.org/simple", false);
        check("index-url = https://token@pypi.example.org/simple", false);
        check("index-url = https://pypi.example.org/simple", true);
        check("token = \"x\"", false);
        check("[target.x86_64-unknown-linux-gnu]", true);
        check("linker = \"clang\"", true);
        check("nodejs 22.1.0", true);
    }

    #[test]
    fn npm_finds_the_packages_of_a_lock_file_by_their_hashes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let place = |name: &str| format!("_cacache/content-v2/sha512/61/62/{name}");
        for name in ["home", "tree", "user/.npm/_cacache/content-v2/sha512/61/62"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let packages = ["63", "64"].map(|name| at("user/.npm").join(place(name)));
        for package in &packages {
            fs::write(package, "").unwrap();
        }
        // YWJj is abc; YWJl is abe, which the cache doesn't contain; Li4vLi4v would leave the cache.
        let lock =
            ["YWJj", "YWJl", "Li4vLi4v", "!"].map(|hash| format!("\"integrity\": \"sha512-{hash}\",\n"));
        fs::write(at("tree/package-lock.json"), lock.concat()).unwrap();
        let tools = Tools::find(&at("user"), std::collections::BTreeMap::new());
        for _ in 0..2 {
            tools.furnish(&at("home"), &at("tree")).unwrap();
            let link = |name| fs::read_link(at("home/.npm").join(place(name)));
            assert_eq!(link("63").unwrap(), packages[0]);
            assert!(link("64").is_err() && link("65").is_err());
        }
    }

    #[test]
    fn existing_files_stay_and_nothing_is_written_outside() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["user/.cargo/registry/cache/host", "home", "outside"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["a", "b"] {
            let file = format!("user/.cargo/registry/cache/host/{name}-1.0.0.crate");
            fs::write(at(&file), name).unwrap();
        }
        fs::write(at("user/.npmrc"), "fund=false\n").unwrap();
        fs::write(at("user/.tool-versions"), "nodejs 22\n").unwrap();
        std::os::unix::fs::symlink(at("outside"), at("home/.cargo")).unwrap();
        fs::write(at("home/.npmrc"), "own").unwrap();
        let tools = Tools::find(&at("user"), std::collections::BTreeMap::new());
        fs::create_dir(at("tree")).unwrap();
        fs::write(
            at("tree/Cargo.lock"),
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n",
        )
        .unwrap();
        tools.furnish(&at("home"), &at("tree")).unwrap();
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(at("home/.npmrc")).unwrap(), "own");
        assert_eq!(
            fs::read_to_string(at("home/.tool-versions")).unwrap(),
            "nodejs 22\n"
        );
        fs::remove_file(at("home/.cargo")).unwrap();
        tools.furnish(&at("home"), &at("user")).unwrap();
        assert!(!at("home/.cargo").exists(), "a checkout without a lock file");
        tools.furnish(&at("home"), &at("tree")).unwrap();
        let link = fs::read_link(at("home/.cargo/registry/cache/host/a-1.0.0.crate"));
        assert_eq!(link.unwrap(), at("user/.cargo/registry/cache/host/a-1.0.0.crate"));
        assert!(
            !at("home/.cargo/registry/cache/host/b-1.0.0.crate").exists(),
            "another package"
        );
    }
}
