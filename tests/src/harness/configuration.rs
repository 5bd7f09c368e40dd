//! A trusted `.ralph.toml`.

use std::path::Path;

use ralph_shared::trust::Consents;

/// Writes a folder's `.ralph.toml`, and trusts it for a user whose home is that folder.
pub fn configure(folder: &Path, text: &str) {
    let file = folder.join(".ralph.toml");
    let consents = Consents::in_folder(folder.join(".local/state/ralph/trusted"));
    let written = std::fs::write(&file, text).and_then(|()| consents.grant(&file, text));
    if let Err(error) = written {
        panic!("{} can't be written: {error}", file.display());
    }
}
