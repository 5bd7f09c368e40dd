//! Isolates a row that cannot be processed from the others. Turns a panic into an error, and distinguishes
//! errors of the whole database from errors of that row.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

/// The outcome of `step`; a panic becomes an error.
pub(super) async fn guarded<T>(step: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    AssertUnwindSafe(step)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(sqlx::Error::Protocol("it panicked".to_owned())))
}

/// Whether the error concerns the server, not the statement, so that the work will be repeated later.
pub(super) fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(e) => e.code().is_some_and(|code| is_away_code(&code)),
        _ => false,
    }
}

/// Whether a code of Postgres concerns the server or the connection, not the statement. A statement that took
/// too long (57014) or too much memory (53200) may do so each time.
fn is_away_code(code: &str) -> bool {
    // 08: the connection broke; 57P0x: the server shuts down or starts; 53100, 53300: out of disk or
    // connections; 40: repeated contention on the same rows; 25P0x: the server ended an idle transaction;
    // 42703, 42P01, 42883: a later release has changed the schema, and only its coordinators can continue.
    [
        "08", "57P0", "53100", "53300", "40", "25P0", "42703", "42P01", "42883",
    ]
    .iter()
    .any(|class| code.starts_with(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_server_count_as_away() {
        for (code, away) in [
            ("08006", true),
            ("57P01", true),
            ("57P03", true),
            ("57014", false),
            ("53100", true),
            ("53200", false),
            ("53300", true),
            ("40P01", true),
            ("25P03", true),
            ("42703", true),
            ("42P01", true),
            ("22012", false),
            ("P0001", false),
        ] {
            assert_eq!(is_away_code(code), away, "{code}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let panics = async { panic!("no") };
        let ended: sqlx::Result<()> = guarded(panics).await;
        assert!(matches!(&ended, Err(error) if !is_away(error)), "{ended:?}");
    }
}
