//! The initial database of every test: created once, and copied. `initdb` and the migrations take longer
//! than most tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use ralph_coordinator::domain::states::MOVES;
use ralph_coordinator::embedded::{DataDir, Postgres, SearchPaths, Tuning};
use ralph_coordinator::store;
use sha2::{Digest as _, Sha256};

use super::world::{built, make_traversable};

/// The database's parts of a data folder.
const PARTS: [&str; 2] = ["postgres", "secrets/postgres"];

/// Copies a migrated, empty database into a data folder without one.
pub(super) async fn lay(data: &DataDir, places: &SearchPaths) -> anyhow::Result<()> {
    let template = template(places).await?;
    for part in PARTS {
        copy(&template.join(part), &data.path(part))?;
    }
    Ok(())
}

/// The folder to copy from, created by the first test of any process that needs it.
async fn template(places: &SearchPaths) -> anyhow::Result<PathBuf> {
    let folder = built().join(format!("test-database-{}", key(places)?));
    let lock = File::create(folder.with_extension("lock"))?;
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    if !folder.exists() {
        make(&folder, places).await?;
    }
    lock.unlock()?;
    Ok(folder)
}

/// A hash of everything that a template depends on.
fn key(places: &SearchPaths) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for server in places.postgres()?.iter().take(1) {
        hash.update(format!("{} {:?}", server.bin.display(), server.version));
    }
    hash.update(check_moves_sql());
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut files: Vec<PathBuf> = fs::read_dir(&migrations)
        .with_context(|| format!("failed to read {}", migrations.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for file in files {
        hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(fs::read(file)?);
    }
    let hash = hash.finalize();
    Ok(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

async fn make(folder: &Path, places: &SearchPaths) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ralph-test-").tempdir()?;
    make_traversable(dir.path())?;
    let data = DataDir::open(&dir.path().join("data"))?;
    let postgres = Postgres::start(&places.postgres()?, &data, Tuning::Tests).await?;
    let db = store::connect(&postgres.url(), 1).await?;
    store::migrate(&db).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(check_moves_sql()))
        .execute(&db)
        .await?;
    db.close().await;
    postgres.stop().await;
    let unfinished = folder.with_extension("new");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(unfinished.join("secrets"))?;
    for part in PARTS {
        copy(&data.path(part), &unfinished.join(part))?;
    }
    fs::rename(&unfinished, folder)?;
    Ok(())
}

/// A trigger that rejects all state changes of a task that [`MOVES`] does not list.
fn check_moves_sql() -> String {
    let moves: Vec<String> = MOVES
        .iter()
        .flat_map(|(from, to, _)| {
            from.iter()
                .flat_map(move |from| to.iter().map(move |to| (from, to)))
        })
        .map(|(from, to)| format!("('{}', '{}')", from.into_str(), to.into_str()))
        .collect();
    format!(
        "create function check_move() returns trigger language plpgsql as $$ begin
           if (old.state, new.state) not in ({}) then
             raise exception 'no move of a task: % to %', old.state, new.state;
           end if;
           return new;
         end $$;
         create trigger check_move before update of state on tasks
           for each row when (old.state <> new.state) execute function check_move();",
        moves.join(", ")
    )
}

/// Preserves owners and modes, which Postgres checks.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let status = Command::new("cp").arg("-a").args([from, to]).status()?;
    ensure!(
        status.success(),
        "failed to copy {} to {}",
        from.display(),
        to.display()
    );
    Ok(())
}
