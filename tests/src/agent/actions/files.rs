//! Files that the agent itself reads, writes, and waits for.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::ToolKind;
use serde_json::json;
use tokio::fs;

use super::super::turn::Turn;

const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl Turn {
    pub(super) fn at(&self, path: &Path) -> PathBuf {
        self.session.cwd.join(path)
    }

    pub(super) async fn write(&self, path: &Path, text: &str) -> Result<(), Error> {
        self.edit("Write", path, async |file| fs::write(file, text).await)
            .await
    }

    pub(super) async fn append(&self, path: &Path, text: &str) -> Result<(), Error> {
        self.edit("Append to", path, async |file| {
            let mut whole = match fs::read_to_string(&file).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                read => read?,
            };
            whole.push_str(text);
            fs::write(file, whole).await
        })
        .await
    }

    pub(super) async fn insert(&self, path: &Path, after: &str, text: &str) -> Result<(), Error> {
        self.edit("Insert into", path, async |file| {
            let whole = fs::read_to_string(&file).await?;
            let at = end_of_line(&whole, after)
                .ok_or_else(|| io::Error::other(format!("it has no line `{after}`")))?;
            fs::write(file, format!("{}{text}{}", &whole[..at], &whole[at..])).await
        })
        .await
    }

    pub(super) async fn read(&self, path: &Path) -> Result<(), Error> {
        let title = format!("Read {}", path.display());
        let tool = self.begin_tool(&title, ToolKind::Read, Some(path), json!({ "path": path }))?;
        let text = fs::read(self.at(path))
            .await
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        tool.end(text.map_err(|error| failed("read", path, &error)))
    }

    pub(super) async fn wait_for(&self, path: &Path) {
        let path = self.at(path);
        while !fs::try_exists(&path).await.unwrap_or(false) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn edit(
        &self,
        verb: &str,
        path: &Path,
        change: impl AsyncFnOnce(PathBuf) -> io::Result<()>,
    ) -> Result<(), Error> {
        let title = format!("{verb} {}", path.display());
        let tool = self.begin_tool(&title, ToolKind::Edit, Some(path), json!({ "path": path }))?;
        let file = self.at(path);
        let result = async {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).await?;
            }
            change(file).await
        };
        tool.end(
            result
                .await
                .map(|()| "done")
                .map_err(|error| failed("write", path, &error)),
        )
    }
}

/// Offset after the first line that equals `wanted`, ignoring blanks around it.
fn end_of_line(text: &str, wanted: &str) -> Option<usize> {
    let mut end = 0;
    text.split_inclusive('\n').find_map(|line| {
        end += line.len();
        (line.trim() == wanted).then_some(end)
    })
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("failed to {verb} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_line_finds_the_first_matching_line() {
        assert_eq!(end_of_line("a\n  b \nb\n", "b"), Some("a\n  b \n".len()));
        assert_eq!(end_of_line("a\nb", "b"), Some("a\nb".len()));
        assert_eq!(end_of_line("ab\n", "b"), None);
    }
}
