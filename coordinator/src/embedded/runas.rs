//! The user that runs Postgres when we are root, because Postgres refuses to run as root.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, geteuid};

/// Accounts to try, in order.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// A plain user that root starts a server as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    pub name: String,
    pub uid: u32,
    /// Id of its main group.
    pub gid: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum NoPlainUser {
    /// Root finds no other account.
    #[error(
        "Postgres does not run as root, and this machine has neither a user `postgres` nor `nobody`; \
         create one (`useradd --system postgres`) or run as a plain user"
    )]
    OfRoot,
    /// Our own user id has no name.
    #[error(
        "Postgres does not run as a user without a name, and the user id {0} has no entry in /etc/passwd; add one \
         (`useradd --uid {0} ralph`), run as another user, or name a Postgres that runs (DATABASE_URL)"
    )]
    Nameless(u32),
}

impl RunAs {
    /// `None` for a plain user, who runs it directly; for root the first of `postgres` and `nobody` that
    /// exists.
    pub fn for_postgres() -> Result<Option<Self>, NoPlainUser> {
        let own = geteuid();
        if !own.is_root() {
            return named(own, User::from_uid(own).ok().flatten().as_ref());
        }
        ACCOUNTS
            .into_iter()
            .filter_map(|name| User::from_name(name).ok().flatten())
            .find(|user| !user.uid.is_root())
            .map(|user| {
                Some(Self {
                    name: user.name,
                    uid: user.uid.as_raw(),
                    gid: user.gid.as_raw(),
                })
            })
            .ok_or(NoPlainUser::OfRoot)
    }

    /// The first folder above `path` that this user may not enter, by its permission bits.
    pub fn blocked_by(&self, path: &Path) -> Option<PathBuf> {
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.reverse();
        folders
            .into_iter()
            .find(|folder| !self.may_enter(folder))
            .map(Path::to_owned)
    }

    fn may_enter(&self, folder: &Path) -> bool {
        let Ok(metadata) = folder.metadata() else {
            return false;
        };
        let bit = if metadata.uid() == self.uid {
            0o100
        } else if metadata.gid() == self.gid {
            0o010
        } else {
            0o001
        };
        metadata.mode() & bit != 0
    }
}

/// A plain user runs Postgres directly, but needs a name.
fn named(uid: Uid, account: Option<&User>) -> Result<Option<RunAs>, NoPlainUser> {
    match account {
        Some(_) => Ok(None),
        None => Err(NoPlainUser::Nameless(uid.as_raw())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_error_for_a_user_without_a_name_says_what_to_do() {
        let own = User::from_uid(geteuid()).unwrap();
        assert!(named(geteuid(), own.as_ref()).unwrap().is_none());
        let error = named(Uid::from_raw(54_321), None).unwrap_err().to_string();
        assert!(error.contains("useradd --uid 54321"), "{error}");
    }

    #[test]
    fn a_closed_folder_above_blocks_a_stranger() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let program = inner.join("postgres");
        let stranger = RunAs {
            name: "stranger".into(),
            uid: 4_000_000,
            gid: 4_000_000,
        };

        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(stranger.blocked_by(&program), Some(inner.clone()));

        fs::set_permissions(&inner, Permissions::from_mode(0o711)).unwrap();
        assert_eq!(stranger.blocked_by(&program), None);
    }
}
