//! What became weaker in tests, read from a diff: files and tests that are gone, tests that are skipped, assertions that are
//! gone; and before all of that, what changed of Ralph's own configuration. Decided from lines alone, so that it holds for any
//! language; a report for whoever judges, not a verdict.
//!
//! | module | what it knows |
//! | --- | --- |
//! | `diff` | a unified diff as files with lines |
//! | `marks` | what tests, assertions and skips look like |
//! | `find` | what of it to tell |

mod diff;
mod find;
mod marks;

pub(in crate::workspace) use find::{WeakenedTests, weakened};
