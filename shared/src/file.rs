//! Reads files that a person names: bounded, without a wait for a pipe that nobody writes to, and with an
//! error that names the file and the problem.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The largest configuration file, secret, certificate or template. Bytes.
pub const SMALL_BYTES: u64 = 1 << 20;
/// The largest specification, plan, list of tasks or memory. Bytes, as many as the API takes.
pub const LARGE_BYTES: u64 = 64 << 20;
/// The beginning of a value that comes from a file: `file:/run/secrets/key`.
pub const PREFIX: &str = "file:";

/// Reads a whole text file of at most `most` bytes.
///
/// # Errors
/// If it is a folder or a named pipe, has more bytes, is not UTF-8, or the system refuses; the message names
/// the file.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let named = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("failed to read {}: {error}", path.display()),
        )
    };
    let open = |flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
    // Without the flag, opening a pipe waits until somebody writes to it.
    let mut file = open(nix::fcntl::OFlag::O_NONBLOCK.bits()).map_err(named)?;
    let kind = file.metadata().map_err(named)?.file_type();
    if kind.is_dir() {
        return Err(named(io::Error::new(
            ErrorKind::IsADirectory,
            "this is a folder; name a file in it",
        )));
    }
    if kind.is_fifo() || kind.is_char_device() {
        if kind.is_fifo() && !is_descriptor(path) {
            return Err(named(io::Error::new(
                ErrorKind::InvalidInput,
                "this is a named pipe; name a file, or `-` for standard input where it is accepted",
            )));
        }
        // A pipe that is already open: `<(…)` of a shell, or /dev/stdin.
        file = open(0).map_err(named)?;
    }
    read_from(file, most).map_err(named)
}

/// Reads standard input to its end, like [`read_text`].
///
/// # Errors
/// As [`read_text`].
pub fn read_stdin(most: u64) -> io::Result<String> {
    read_from(io::stdin().lock(), most)
        .map_err(|error| io::Error::new(error.kind(), format!("failed to read standard input: {error}")))
}

/// Reads a file, or standard input if `path` is `-`.
///
/// # Errors
/// As [`read_text`].
pub fn read_text_or_stdin(path: &Path, most: u64) -> io::Result<String> {
    if path.as_os_str() == "-" {
        read_stdin(most)
    } else {
        read_text(path, most)
    }
}

/// The value itself, or the content of the file that it names as `file:PATH`, without surrounding blanks.
///
/// # Errors
/// If that file can't be read.
pub fn value(text: &str) -> io::Result<String> {
    match text.strip_prefix(PREFIX) {
        Some(path) => Ok(read_text(Path::new(path), SMALL_BYTES)?.trim().to_owned()),
        None => Ok(text.to_owned()),
    }
}

fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc") || path == Path::new("/dev/stdin")
}

fn read_from(from: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let error = format!("it has more than the {} MiB that are read", most >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, error));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[track_caller]
    fn refused(path: &Path, expected: &str) {
        let error = read_text(path, SMALL_BYTES).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains(path.to_str().unwrap()),
            "{error}"
        );
    }

    #[test]
    fn folders_pipes_and_large_or_binary_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        refused(&at("none"), "No such file");
        refused(folder.path(), "this is a folder");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused(&at("pipe"), "this is a named pipe");
        refused(Path::new("/dev/zero"), "more than the 1 MiB");
        std::fs::write(at("large"), vec![b' '; (SMALL_BYTES + 1) as usize]).unwrap();
        refused(&at("large"), "more than the 1 MiB");
        std::fs::write(at("bytes"), [0xff]).unwrap();
        refused(&at("bytes"), "not UTF-8 text");
    }

    #[test]
    fn files_devices_and_open_pipes_are_read() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        std::fs::write(&whole, vec![b'a'; SMALL_BYTES as usize]).unwrap();
        assert_eq!(read_text(&whole, SMALL_BYTES).unwrap().len() as u64, SMALL_BYTES);
        assert_eq!(read_text(Path::new("/dev/null"), SMALL_BYTES).unwrap(), "");
        let (from, mut to) = io::pipe().unwrap();
        to.write_all(b"piped").unwrap();
        drop(to);
        let open = format!("/dev/fd/{}", from.as_raw_fd());
        assert_eq!(read_text(Path::new(&open), SMALL_BYTES).unwrap(), "piped");
    }
}
