//! Postgres and NATS: private servers, or the servers that the environment names.

use anyhow::Context as _;
use ralph_shared::environment::value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::steps::{Steps, report};
use crate::embedded::{DataDir, Nats, Phase, Postgres, Role, SearchPaths, Tuning};
use crate::store;

/// The servers. Private ones run as long as this value exists.
#[derive(Debug)]
pub struct Servers {
    postgres: Option<Postgres>,
    nats: Option<Nats>,
    /// Includes the password.
    pub database_url: String,
    /// Includes the coordinator's password.
    pub nats_url: String,
    /// Includes the workers' password.
    pub worker_nats_url: String,
}

impl Servers {
    /// Starts the private servers, and migrates the schema to this release.
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
            report(&format!(
                "database {} (DATABASE_URL)",
                without_login(&servers.database_url)
            ));
        }
        steps.step("schema", servers.migrate()).await?;
        Ok(servers)
    }

    /// Whether other coordinators or workers may use the same servers.
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

    pub fn has_private_nats(&self) -> bool {
        self.nats.is_some()
    }

    /// Phases of the private servers, for reports of their ends.
    pub fn phases(&self) -> Vec<(&'static str, watch::Receiver<Phase>)> {
        let postgres = self.postgres.as_ref().map(|server| ("Postgres", server.phases()));
        let nats = self.nats.as_ref().map(|server| ("nats-server", server.phases()));
        postgres.into_iter().chain(nats).collect()
    }

    /// Cancel these during a stop to shorten the time that the private servers get.
    pub fn hurry(&self) -> Vec<CancellationToken> {
        let postgres = self.postgres.as_ref().map(Postgres::hurry);
        let nats = self.nats.as_ref().map(Nats::hurry);
        postgres.into_iter().chain(nats).collect()
    }

    pub async fn stop(self) {
        if let Some(nats) = self.nats {
            nats.stop().await;
        }
        if let Some(postgres) = self.postgres {
            postgres.stop().await;
        }
    }
}

/// An address without user and password.
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
    fn a_database_address_is_shown_without_its_login() {
        for (url, shown) in [
            (
                "postgres://me:p@ss@host:5432/db?sslmode=require&password=x",
                "postgres://host:5432/db",
            ),
            ("postgres:///db", "postgres:///db"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(without_login(url), shown);
        }
    }
}
