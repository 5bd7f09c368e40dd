//! Limits of the same Postgres without Ralph: the yardsticks of the run, measured by `pgbench`.

use anyhow::{Context as _, bail};
use ralph_coordinator::embedded::SearchPaths;

use crate::database;
use crate::figures::Figures;
use crate::servers::Servers;

/// L1: transactions that claim one row and complete it.
pub const CLAIM_AND_COMPLETE: &str = "L1 claim and complete one row, 8 clients";
/// Duration of each measurement. Seconds.
const SECONDS: &str = "5";

const SCHEMA: &str = "
    create table jobs (id bigint primary key, state int not null default 0, payload jsonb) with (fillfactor = 70);
    insert into jobs select i, 0, '{\"i\": 1}' from generate_series(1, 400000) i;
    create index on jobs (id) where state = 0;
    create table inserted (id bigserial primary key, v text);";

const CLAIM: &str = "begin;
select id from jobs where state = 0 order by id for update skip locked limit 1 \\gset
update jobs set state = 2 where id = :id;
commit;
";

const INSERT: &str = "insert into inserted (v) values ('x');\n";

pub async fn limits(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    let url = database::create(servers, "limits").await?;
    let mut conn = database::connection(&url).await?;
    for statement in [SCHEMA, "vacuum analyze jobs", "checkpoint"] {
        sqlx::raw_sql(statement).execute(&mut conn).await?;
    }
    let measured = [
        (CLAIM_AND_COMPLETE, CLAIM, "8"),
        ("L2 insert one row, 1 client", INSERT, "1"),
        ("L2 insert one row, 8 clients", INSERT, "8"),
    ];
    for (name, script, clients) in measured {
        figures.add(name, "1/s", pgbench(servers, &url, script, clients).await?);
    }
    Ok(())
}

async fn pgbench(servers: &Servers, url: &str, script: &str, clients: &str) -> anyhow::Result<f64> {
    let found = SearchPaths::from_env().postgres()?;
    let program = found
        .iter()
        .map(|server| server.bin.join("pgbench"))
        .find(|program| program.exists())
        .context("found no pgbench beside any Postgres; `make setup` brings one")?;
    let file = servers.dir().join("pgbench.sql");
    tokio::fs::write(&file, script).await?;
    let output = tokio::process::Command::new(&program)
        .args([
            "-n", "-M", "prepared", "-c", clients, "-j", "2", "-T", SECONDS, "-f",
        ])
        .arg(&file)
        .arg(url)
        .output()
        .await
        .with_context(|| format!("failed to run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|word| word.parse().ok());
    match rate {
        Some(rate) => Ok(rate),
        None => bail!(
            "pgbench measured nothing:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}
