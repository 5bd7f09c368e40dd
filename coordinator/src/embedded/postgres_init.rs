//! Creates the data folder of a private Postgres, all or nothing.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::Tuning;
use super::child::{ChildSpec, Process, StopStep};
use super::datadir::{DataDir, write_private};
use super::find::PostgresServer;
use super::readiness::ServerError;
use super::runas::RunAs;

/// The superuser of a private Postgres.
pub(super) const USER: &str = "ralph";
/// Includes `ralph.conf`. Settings that a user adds below it win.
const INCLUDE: &str = "\ninclude 'ralph.conf'\n";
const INITDB_WITHIN: Duration = Duration::from_secs(60);
/// `sun_path` holds 108 bytes with its final zero.
const SOCKET_PATH_BYTES: usize = 107;
const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// A program of the server that works on the data folder `folder`.
///
/// Another user may not be able to enter the folders above it (a clone below `/root`). So on Linux the
/// program starts inside its data folder and names it by a descriptor, which needs no path from the root. The
/// working folder isn't enough: before release 16 the programs leave it to find themselves, and can't return.
pub(super) fn program(
    name: &'static str,
    program: PathBuf,
    data: &DataDir,
    folder: &Path,
    user: Option<&RunAs>,
) -> ChildSpec {
    let spec = if user.is_some() && cfg!(target_os = "linux") {
        ChildSpec::new(name, "/bin/sh", data.log(name))
            .args(["-c", r#"exec 9<. && exec "$0" "$@""#])
            .args([program.into_os_string()])
            .args(["-D", "/proc/self/fd/9"])
    } else {
        ChildSpec::new(name, program, data.log(name)).args(["-D".into(), folder.as_os_str().to_owned()])
    };
    spec.folder(folder).run_as(user.cloned())
}

/// Creates `folder` with `initdb`. Removes a half-made folder of an earlier try.
pub(super) async fn initialise(
    server: &PostgresServer,
    data: &DataDir,
    folder: &Path,
    sockets: &Path,
    user: Option<&RunAs>,
    tuning: Tuning,
) -> Result<(), ServerError> {
    let unfinished = data.path("postgres.new");
    remove_folder(&unfinished)?;
    private_folder(&unfinished, user)?;
    let password = sockets.join("password");
    write_private(&password, data.secret("postgres")?.as_bytes())?;
    give(&password, user)?;
    let result = run_initdb(server, data, &unfinished, &password, user, tuning).await;
    fs::remove_file(&password).map_err(ServerError::io("remove", &password))?;
    result?;

    let settings = unfinished.join("postgresql.conf");
    include(&settings).map_err(ServerError::io("write", &settings))?;
    fs::rename(&unfinished, folder).map_err(ServerError::io("rename", &unfinished))
}

async fn run_initdb(
    server: &PostgresServer,
    data: &DataDir,
    unfinished: &Path,
    password: &Path,
    user: Option<&RunAs>,
    tuning: Tuning,
) -> Result<(), ServerError> {
    let mut pwfile = std::ffi::OsString::from("--pwfile=");
    pwfile.push(password);
    let mut spec = program("initdb", server.bin.join("initdb"), data, unfinished, user)
        .args([pwfile])
        .args([
            &format!("--username={USER}"),
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
        ])
        .stop_steps([StopStep {
            signal: nix::sys::signal::SIGINT,
            grace: Duration::from_secs(5),
        }]);
    if tuning == Tuning::Tests {
        // A new cluster with small log segments is copied sooner.
        spec = spec.args(["--no-sync", "--wal-segsize=1"]);
    }
    let process = Process::spawn(&spec)?;
    let status = match tokio::time::timeout(INITDB_WITHIN, process.wait()).await {
        Ok(status) => status,
        Err(_late) => process.stop().await,
    };
    if status.success() {
        return Ok(());
    }
    Err(ServerError::Helper {
        name: "initdb",
        status: status.to_string(),
        output: process.log_tail(),
    })
}

/// The folder of the server's socket. A folder below `/tmp` is removed on drop.
#[derive(Debug)]
pub(super) struct SocketFolder {
    path: PathBuf,
    temporary: bool,
}

impl SocketFolder {
    /// Uses the data folder if its path is short enough and has no comma (the server takes a list of
    /// folders), and if its owner runs the server. Else uses a folder below `/tmp`, whose name is unique to
    /// the data folder and the same at each start.
    pub(super) fn new(data: &DataDir, user: Option<&RunAs>) -> Result<Self, ServerError> {
        let inside = data.path("run");
        let is_one = !inside.as_os_str().as_encoded_bytes().contains(&b',');
        if user.is_none() && is_one && inside.join(SOCKET_NAME).as_os_str().len() <= SOCKET_PATH_BYTES {
            return Ok(Self {
                path: inside,
                temporary: false,
            });
        }
        let hash = Sha256::digest(data.root().as_os_str().as_encoded_bytes());
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let path = PathBuf::from(format!("/tmp/ralph-{name}"));
        private_folder(&path, user)?;
        Ok(Self {
            path,
            temporary: true,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Appends the include to a file that the server's user created. Never follows a link.
fn include(settings: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(settings)?;
    file.write_all(INCLUDE.as_bytes())
}

/// Gives a file to the user that runs the server. In that user's folder it may have become a link to any file
/// of root's.
pub(super) fn give(path: &Path, user: Option<&RunAs>) -> Result<(), ServerError> {
    let Some(user) = user else { return Ok(()) };
    lchown(path, Some(user.uid), Some(user.gid)).map_err(ServerError::io("change the owner of", path))
}

/// Creates a folder for the server's user alone. An existing one, as in a shared `/tmp`, must already belong
/// to that user.
fn private_folder(path: &Path, user: Option<&RunAs>) -> Result<(), ServerError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return give(path, user),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(ServerError::io("create", path)(error)),
    }
    let metadata = fs::symlink_metadata(path).map_err(ServerError::io("inspect", path))?;
    let own = nix::unistd::geteuid().as_raw();
    let owner = user.map_or(own, |user| user.uid);
    // We may have created it and died before we gave it away.
    if !metadata.is_dir() || (metadata.uid() != owner && metadata.uid() != own) {
        let error = io::Error::other("it already exists and belongs to somebody else; remove it");
        return Err(ServerError::io("use", path)(error));
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(ServerError::io("restrict access to", path))?;
    give(path, user)
}

fn remove_folder(path: &Path) -> Result<(), ServerError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ServerError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn include_does_not_write_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "port = 1\n").unwrap();
        symlink(&file, &link).unwrap();
        assert!(include(&link).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "port = 1\n");
        include(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("port = 1\n{INCLUDE}"));
    }

    #[test]
    fn give_does_not_follow_a_link() {
        if !nix::unistd::geteuid().is_root() {
            return; // Only root can give files away.
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "root's").unwrap();
        symlink(&file, &link).unwrap();
        let user = RunAs {
            name: "stranger".into(),
            uid: 65534,
            gid: 65534,
        };
        give(&link, Some(&user)).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
        assert_eq!(fs::symlink_metadata(&link).unwrap().uid(), 65534);
    }

    #[test]
    fn a_data_folder_with_a_comma_gets_a_socket_folder_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("a,b")).unwrap();
        let sockets = SocketFolder::new(&data, None).unwrap();
        assert!(!sockets.path().to_string_lossy().contains(','), "{sockets:?}");
    }
}
