//! Postgres and NATS: private ones, or those that the environment names.

use anyhow::Context as _;
use ralph_shared::environment::value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::steps::{Steps, tell};
use crate::embedded::{DataDir, Nats, Phase, Postgres, Role, SearchPaths, Tuning};
use crate::store;

/// What the environment names, else private servers that run as long as this value is kept.
#[derive(Debug)]
pub struct Servers {
    postgres: Option<Postgres>,
    nats: Option<Nats>,
    /// With its password.
    pub database_url: String,
    /// With the coordinator's password.
    pub nats_url: String,
    /// With the workers' password.
    pub worker_nats_url: String,
}

impl Servers {
    /// Starts what is to be private, and brings the schema to this release.
    ///
    /// # Errors
    /// When a server isn't found or doesn't start; the message says what to do.
    pub async fn start(data: &DataDir, steps: &Steps) -> anyhow::Result<Self> {
        let (database_url, nats_url) = (value("DATABASE_URL")?, value("NATS_URL")?);
        let places = SearchPaths::from_env();
        let postgres = match &database_url {
            Some(_) => None,
            None => {
                let start = async {
                    let postgres = Postgres::start(&places.postgres()?, data, Tuning::Durable).await?;
                    let [major, minor] = postgres.version();
                    anyhow::Ok((postgres, format!("{major}.{minor}")))
                };
                Some(steps.step("Postgres", start).await?)
            }
        };
        let nats = match &nats_url {
            Some(_) => None,
            None => {
                let start = async {
                    let server = places.nats()?;
                    let version = server.version.map(|part| part.to_string()).join(".");
                    anyhow::Ok((Nats::start(&server, data, Tuning::Durable).await?, version))
                };
                Some(steps.step("nats-server", start).await?)
            }
        };
        let url_for = |role| {
            nats.as_ref()
                .map(|nats| nats.url_for(role))
                .or_else(|| nats_url.clone())
        };
        let servers = Self {
            database_url: postgres
                .as_ref()
                .map(Postgres::url)
                .or(database_url)
                .unwrap_or_default(),
            nats_url: url_for(Role::Coordinator).unwrap_or_default(),
            worker_nats_url: value("RALPH_WORKER_NATS_URL")?
                .or_else(|| url_for(Role::Worker))
                .unwrap_or_default(),
            postgres,
            nats,
        };
        if servers.postgres.is_none() {
            tell(&format!(
                "database {} (DATABASE_URL)",
                without_login(&servers.database_url)
            ));
        }
        steps.step("schema", servers.migrate()).await?;
        Ok(servers)
    }

    /// Whether others may work with the same servers.
    pub fn shared(&self) -> bool {
        self.postgres.is_none() || self.nats.is_none()
    }

    async fn migrate(&self) -> anyhow::Result<((), String)> {
        let server = store::Server::find(&self.database_url).await?;
        server.warn_of_plain_text();
        let db = store::connect_with(&server, 1);
        let pending = store::pending_migrations(&db).await?;
        store::migrate(&db)
            .await
            .context("failed to migrate the database")?;
        db.close().await;
        let detail = if pending == 0 {
            "is current".to_owned()
        } else {
            format!("{pending} migrations applied")
        };
        Ok(((), detail))
    }

    /// Whether the broker is a private one.
    pub fn has_private_nats(&self) -> bool {
        self.nats.is_some()
    }

    /// The private ones, to be told of when they die.
    pub fn phases(&self) -> Vec<(&'static str, watch::Receiver<Phase>)> {
        let postgres = self.postgres.as_ref().map(|server| ("Postgres", server.phases()));
        let nats = self.nats.as_ref().map(|server| ("nats-server", server.phases()));
        postgres.into_iter().chain(nats).collect()
    }

    /// Called while they stop, these give them only a little time.
    pub fn hurry(&self) -> Vec<CancellationToken> {
        let postgres = self.postgres.as_ref().map(Postgres::hurry);
        let nats = self.nats.as_ref().map(Nats::hurry);
        postgres.into_iter().chain(nats).collect()
    }

    /// Stops the private ones.
    pub async fn stop(self) {
        if let Some(nats) = self.nats {
            nats.stop().await;
        }
        if let Some(postgres) = self.postgres {
            postgres.stop().await;
        }
    }
}

/// An address without the name and the password in it.
fn without_login(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.split('?').next().unwrap_or_default();
    if scheme.is_empty() {
        host.to_owned()
    } else {
        format!("{scheme}://{host}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_database_has_no_login() {
        for (url, told) in [
            (
                "postgres://me:p@ss@host:5432/db?sslmode=require&password=x",
                "postgres://host:5432/db",
            ),
            ("postgres:///db", "postgres:///db"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(without_login(url), told);
        }
    }
}
