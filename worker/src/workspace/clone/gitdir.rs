//! Git directories made by hand: no template, no hook, nothing but what is written here, and no process for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::workspace::git::environment::Identity;

/// How a repository names its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    /// The format of a whole object id.
    pub(in crate::workspace) fn of(object_id: &str) -> Self {
        if object_id.len() == 64 {
            Self::Sha256
        } else {
            Self::Sha1
        }
    }

    /// The id that stands for "no object".
    pub(in crate::workspace) fn zeros(self) -> String {
        "0".repeat(match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        })
    }
}

/// What `HEAD` of a new git directory says.
pub(in crate::workspace) enum Head<'a> {
    /// A whole ref name, which needn't exist.
    Ref(&'a str),
    Commit(&'a str),
}

/// Makes or completes a git directory whose objects may be borrowed from the object folder `borrowed`. `HEAD` is written
/// last: where it is, the rest is there.
///
/// # Errors
/// When the disk doesn't take it.
pub(in crate::workspace) fn make(
    dir: &Path,
    format: ObjectFormat,
    head: Head<'_>,
    borrowed: Option<&Path>,
    bare: bool,
    more_config: &str,
) -> io::Result<()> {
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(dir.join(folder))?;
    }
    if let Some(objects) = borrowed {
        borrow(dir, objects)?;
    }
    let (version, extension) = match format {
        ObjectFormat::Sha1 => (0, ""),
        ObjectFormat::Sha256 => (1, "[extensions]\n\tobjectFormat = sha256\n"),
    };
    let lenders = match borrowed.is_some_and(is_partial) {
        true => PARTIAL,
        false => "",
    };
    let config = format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = {bare}\n{extension}{lenders}{more_config}"
    );
    fs::write(dir.join("config"), config)?;
    fs::write(dir.join("info/exclude"), "/.ralph/context/\n")?;
    let head = match head {
        Head::Ref(name) => format!("ref: {name}\n"),
        Head::Commit(id) => format!("{id}\n"),
    };
    fs::write(dir.join("HEAD"), head)
}

/// What a git directory says whose remote has objects that are not here.
pub(in crate::workspace) const PARTIAL: &str =
    "[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\tpromisor = true\n";

/// Whether objects may be missing in the object folder of a git directory, since its remote has them.
pub(in crate::workspace) fn is_partial(objects: &Path) -> bool {
    let config = objects.with_file_name("config");
    fs::read_to_string(config).is_ok_and(|config| config.to_lowercase().contains("partialclone ="))
}

/// Lets the git directory find objects in the object folder `objects`, which must stay, up to where its history ends.
pub(in crate::workspace) fn borrow(dir: &Path, objects: &Path) -> io::Result<()> {
    lend(dir, objects)?;
    match fs::copy(objects.with_file_name(SHALLOW), dir.join(SHALLOW)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ = fs::remove_file(dir.join(SHALLOW));
            Ok(())
        }
        copied => copied.map(drop),
    }
}

/// Lets the git directory find objects in the object folder `objects`, which must stay. Where its history ends is its own affair.
pub(in crate::workspace) fn lend(dir: &Path, objects: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let mut line = objects.as_os_str().as_bytes().to_vec();
    line.push(b'\n');
    fs::write(dir.join("objects/info/alternates"), line)
}

/// Removes packs and objects that a killed git left half-written in an object folder, once they are so old.
pub(in crate::workspace) fn remove_halves(objects: &Path, older: Duration) {
    for folder in fs::read_dir(objects).into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            // All else, of which there may be thousands, needn't be asked for.
            if !name.starts_with("tmp_") && !name.starts_with(".tmp-") {
                continue;
            }
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > older) {
                // Whoever fetches goes on without the room.
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// The object folder from which a git directory borrows.
pub(in crate::workspace) fn lender(dir: &Path) -> Option<PathBuf> {
    let line = fs::read_to_string(dir.join("objects/info/alternates")).ok()?;
    Some(PathBuf::from(line.trim_end()))
}

/// The file in a git directory that names commits whose parents are not there.
pub(in crate::workspace) const SHALLOW: &str = "shallow";

/// The `[user]` section that makes commits by `identity`.
pub(in crate::workspace) fn user_section(identity: &Identity) -> String {
    format!(
        "[user]\n\tname = {}\n\temail = {}\n",
        quoted(&identity.name),
        quoted(&identity.email)
    )
}

/// A value as a configuration file takes it.
pub(in crate::workspace) fn quoted(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// Removes lock files that a killed git left, beside `HEAD` and among the refs, and what it was to replace packed refs with; the caller is
/// sure that none runs there.
pub(in crate::workspace) fn remove_stale_locks(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join("packed-refs.new")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    remove_locks_in(dir, false)?;
    remove_locks_in(&dir.join("refs"), true)
}

fn remove_locks_in(dir: &Path, below: bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if below {
                remove_locks_in(&entry.path(), true)?;
            }
        } else if entry.file_name().to_string_lossy().ends_with(".lock") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
