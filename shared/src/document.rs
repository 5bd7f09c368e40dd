//! Names the kind and version of documents that commands print for programs, in a field `schema`.

/// The version of all documents. Any change that could make a reader fail raises it.
pub const VERSION: u32 = 1;

/// Name of a document's kind with its version, for its field `schema`: `ralph/v1/task_list`.
pub fn name(kind: &str) -> String {
    format!("ralph/v{VERSION}/{kind}")
}
