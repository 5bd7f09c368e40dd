//! The settings of a private Postgres, written before each start so that a new release can change them.

use std::path::Path;

use super::Tuning;

/// Coordinators hold small pools; the rest is for people and tests.
const MAX_CONNECTIONS: u32 = 200;

/// The content of `ralph.conf`, which `postgresql.conf` includes.
pub(super) fn render(sockets: &Path, tuning: Tuning) -> String {
    let sockets = sockets.display().to_string().replace('\'', "''");
    let mut text = format!(
        "# Written at each start. Own settings belong into postgresql.conf, below the include.\n\
         listen_addresses = ''\n\
         unix_socket_directories = '{sockets}'\n\
         unix_socket_permissions = 0700\n\
         password_encryption = 'scram-sha-256'\n\
         max_connections = {MAX_CONNECTIONS}\n\
         max_wal_size = '2GB'\n\
         # Short queries by key: compiling them costs more than it saves.\n\
         jit = off\n\
         # Hot tables live from early vacuums.\n\
         autovacuum_naptime = '10s'\n\
         log_timezone = 'UTC'\n\
         timezone = 'UTC'\n"
    );
    if tuning == Tuning::Tests {
        text.push_str("fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n");
        // The shared memory of a killed server is deleted with its folder.
        text.push_str("dynamic_shared_memory_type = mmap\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_give_up_durability() {
        let sockets = Path::new("/tmp/it's");
        assert!(!render(sockets, Tuning::Durable).contains("fsync"));
        assert!(render(sockets, Tuning::Tests).contains("fsync = off"));
        assert!(render(sockets, Tuning::Tests).contains("unix_socket_directories = '/tmp/it''s'"));
    }
}
