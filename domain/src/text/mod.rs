//! Texts that people and agents write and read, parsed or shortened.

pub mod document;
pub mod excerpt;
pub mod knowledge_file;
pub mod leftover_files;
pub mod note;
