//! Weakened tests in a diff: deleted test files and tests, skipped tests, and removed assertions; and,
//! reported first, changes of Ralph's own configuration. Decided from single lines, so that it works for any
//! language. It is a report for the verifier, not a verdict.
//!
//! | module | contents |
//! | --- | --- |
//! | `diff` | a unified diff as files with lines |
//! | `marks` | patterns of tests, assertions and skips |
//! | `find` | selection of findings |

mod diff;
mod find;
mod marks;

pub(in crate::workspace) use find::{WeakenedTests, weakened};
