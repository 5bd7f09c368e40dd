//! Git directories written by hand: without a template, a hook, or a git process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::workspace::git::environment::Identity;

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

    /// The id that means "no object".
    pub(in crate::workspace) fn zeros(self) -> String {
        "0".repeat(match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        })
    }
}

/// `HEAD` of a new git directory.
pub(in crate::workspace) enum Head<'a> {
    /// A whole ref name, which needn't exist.
    Ref(&'a str),
    Commit(&'a str),
}

/// Creates or completes a git directory, which can borrow objects from the object folder `borrowed`. `HEAD`
/// is written last: where it exists, the directory is complete.
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

/// Configuration of a git directory whose missing objects are at its remote.
pub(in crate::workspace) const PARTIAL: &str =
    "[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\tpromisor = true\n";

/// Whether an object folder may lack objects that its remote has.
pub(in crate::workspace) fn is_partial(objects: &Path) -> bool {
    let config = objects.with_file_name("config");
    fs::read_to_string(config).is_ok_and(|config| config.to_lowercase().contains("partialclone ="))
}

/// Lets the git directory borrow from the object folder `objects`, which must stay. Copies the point where a
/// shallow history ends.
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

/// Lets the git directory borrow from the object folder `objects`, which must stay. It keeps its own record
/// of where a shallow history ends.
pub(in crate::workspace) fn lend(dir: &Path, objects: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let mut line = objects.as_os_str().as_bytes().to_vec();
    line.push(b'\n');
    fs::write(dir.join("objects/info/alternates"), line)
}

/// Removes half-written packs and objects of a killed git from an object folder, if they are older than
/// `older`.
pub(in crate::workspace) fn remove_halves(objects: &Path, older: Duration) {
    for folder in fs::read_dir(objects).into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            // Skip the metadata of all other files: there may be thousands.
            if !name.starts_with("tmp_") && !name.starts_with(".tmp-") {
                continue;
            }
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > older) {
                // A fetch works without the freed space.
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// The object folder that a git directory borrows from.
pub(in crate::workspace) fn lender(dir: &Path) -> Option<PathBuf> {
    let line = fs::read_to_string(dir.join("objects/info/alternates")).ok()?;
    Some(PathBuf::from(line.trim_end()))
}

/// The file in a git directory that lists commits without their parents.
pub(in crate::workspace) const SHALLOW: &str = "shallow";

/// The `[user]` section for commits by `identity`.
pub(in crate::workspace) fn user_section(identity: &Identity) -> String {
    format!(
        "[user]\n\tname = {}\n\temail = {}\n",
        quoted(&identity.name),
        quoted(&identity.email)
    )
}

/// A value quoted for a configuration file.
pub(in crate::workspace) fn quoted(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// Removes files of a killed git: locks beside `HEAD` and among the refs, and the half-written replacement of
/// packed refs. The caller must be sure that no git runs there.
pub(in crate::workspace) fn remove_stale_locks(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join("packed-refs.new")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    remove_locks_in(dir, false)?;
    remove_locks_in(&dir.join("refs"), true)
}

fn remove_locks_in(dir: &Path, recursive: bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if recursive {
                remove_locks_in(&entry.path(), true)?;
            }
        } else if entry.file_name().to_string_lossy().ends_with(".lock") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
