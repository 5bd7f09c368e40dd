//! How what commands print for programs says what it is: in a field `schema`.

/// Of all documents. Raised by whatever could make a reader fail.
pub const VERSION: u32 = 1;

/// Name of a document's kind with its version, as its field `schema` has it: `ralph/v1/task_list`.
pub fn name(kind: &str) -> String {
    format!("ralph/v{VERSION}/{kind}")
}
