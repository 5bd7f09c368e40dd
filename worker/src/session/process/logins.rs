//! Logins of agents: files of the user's home that are copied into the session's private home, and back if
//! the agent refreshed them (SPEC 8). The agent never reaches the originals.
//!
//! An agent wrote the returned copy, so it is bounded and read through a handle on the private home. It
//! replaces the original as a whole, with the original's permissions, and only if nothing but tokens and
//! times differs. If both copies changed, the newer one wins; several workers of one user may race.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use parking_lot::Mutex;

use crate::session::process::refreshed_login::is_refreshed;

/// Largest login file. Bytes.
pub const LOGIN_BYTES: u64 = 1024 * 1024;

/// Shortest word of a login file that counts as a secret. Bytes.
const SECRET_BYTES: usize = 20;

/// Serializes copying back among the sessions of this worker.
static COPYING_BACK: Mutex<()> = Mutex::new(());

/// A file with an agent's login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginFile {
    /// Absolute path of the user's file.
    pub original: PathBuf,
    /// Path below the agent's `HOME`.
    pub place: PathBuf,
    /// Whether the file may be missing without a note.
    pub optional: bool,
}

#[derive(Debug)]
pub struct Logins {
    home: Dir,
    copied: Vec<Copied>,
}

#[derive(Debug)]
struct Copied {
    file: LoginFile,
    bytes: Vec<u8>,
}

impl Logins {
    /// Copies the existing files into `home`. Also returns notes about missing ones.
    ///
    /// # Errors
    /// Returns a message if a file can't be copied: it is no plain file, too large or unreadable, or its
    /// target can't be written.
    pub fn copy_in(files: &[LoginFile], home: &Path) -> Result<(Self, Vec<String>), String> {
        let fail = |file: &LoginFile, error: &io::Error| {
            format!("failed to copy the login {}: {error}", file.original.display())
        };
        let dir = Dir::open_ambient_dir(home, ambient_authority())
            .map_err(|error| format!("failed to open the session's home {}: {error}", home.display()))?;
        let mut logins = Self {
            home: dir,
            copied: Vec::new(),
        };
        let mut missing = Vec::new();
        for file in files {
            match read_original(&file.original) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && file.optional => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing.push(format!("the login {} is not there", file.original.display()));
                }
                read => {
                    let bytes = read.map_err(|error| fail(file, &error))?;
                    logins
                        .place(&file.place, &bytes)
                        .map_err(|error| fail(file, &error))?;
                    let file = file.clone();
                    logins.copied.push(Copied { file, bytes });
                }
            }
        }
        Ok((logins, missing))
    }

    /// Writes a file below the home and replaces files of earlier sessions.
    fn place(&self, place: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Some(parent) = place.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.home.create_dir_all(parent)?;
        }
        let mut temporary = place.as_os_str().to_owned();
        temporary.push(".ralph-new");
        let temporary = PathBuf::from(temporary);
        if self.home.symlink_metadata(&temporary).is_ok() {
            self.home.remove_file(&temporary)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        self.home.open_with(&temporary, &options)?.write_all(bytes)?;
        self.home.rename(&temporary, &self.home, place)
    }

    /// Copies changed files back, after all processes of the agent are gone. Returns notes for the user.
    pub fn copy_back(self) -> Vec<String> {
        let _one = COPYING_BACK.lock();
        let mut notes = Vec::new();
        for copied in &self.copied {
            let name = copied.file.original.display();
            match self.copy_one_back(copied) {
                Ok(CopyBack::Unchanged) => {}
                Ok(CopyBack::Refreshed) => notes.push(format!("the login {name} was refreshed")),
                Ok(CopyBack::Older) => notes.push(format!(
                    "the login {name} was changed meanwhile: the session's older one is dropped"
                )),
                Err(error) => notes.push(format!("the login {name} stays as it was: {error}")),
            }
        }
        notes
    }

    fn copy_one_back(&self, copied: &Copied) -> io::Result<CopyBack> {
        let (bytes, changed_at) = self.read_copy(&copied.file.place)?;
        if bytes == copied.bytes {
            return Ok(CopyBack::Unchanged);
        }
        if bytes.is_empty() {
            return Err(io::Error::other("the session left it empty"));
        }
        let original = copied.file.original.canonicalize()?;
        let now = read_original(&original)?;
        if now == bytes {
            return Ok(CopyBack::Unchanged);
        }
        if !is_refreshed(&now, &bytes) {
            let why = "the session changed more in it than tokens and times";
            return Err(io::Error::other(why));
        }
        let metadata = fs::metadata(&original)?;
        if now != copied.bytes && metadata.modified()? > changed_at {
            return Ok(CopyBack::Older);
        }
        let folder = original.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&bytes)?;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(metadata.permissions().mode() & 0o7777))?;
        file.as_file().sync_all()?;
        file.persist(&original).map_err(|error| error.error)?;
        Ok(CopyBack::Refreshed)
    }

    /// The session's copy, if it is a plain file, and its modification time.
    fn read_copy(&self, place: &Path) -> io::Result<(Vec<u8>, SystemTime)> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = self.home.open_with(place, &options)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.nlink() > 1 {
            return Err(io::Error::other(
                "the session replaced it by something other than a plain file",
            ));
        }
        let changed_at = metadata.modified()?.into_std();
        Ok((read_bounded(file.into_std())?, changed_at))
    }
}

enum CopyBack {
    Unchanged,
    /// The original now has the agent's content.
    Refreshed,
    /// The original is newer than the agent's copy.
    Older,
}

fn read_original(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(
            "it is no plain file; name the files of a folder one by one",
        ));
    }
    read_bounded(file)
}

fn read_bounded(file: fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LOGIN_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LOGIN_BYTES {
        return Err(io::Error::other(format!("it is larger than {LOGIN_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Words in the current login files that look secret: long words of letters and digits.
pub fn login_secrets(files: &[LoginFile]) -> Vec<String> {
    let texts = files.iter().filter_map(|file| read_original(&file.original).ok());
    texts
        .flat_map(|bytes| words(&String::from_utf8_lossy(&bytes)))
        .collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.~+/=".contains(c)))
        .filter(|word| is_secret(word))
        .map(str::to_owned)
        .collect()
}

/// Whether a word looks like a token.
pub(in crate::session) fn is_secret(word: &str) -> bool {
    word.len() >= SECRET_BYTES
        && !word.starts_with('/')
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_of_a_login_are_secrets() {
        let login = r#"{"claudeAiOauth":{"accessToken":"abc-DEF_0123456789xyz","expiresAt":1766372781000,
            "scopes":["user:inference"],"path":"/home/user1/a/very/long/path","url":"https://example.org/x"}}"#;
        assert_eq!(words(login), ["abc-DEF_0123456789xyz"]);
    }
}
