//! A Postgres and a nats-server that accept only TLS, with certificates of a private authority.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{User, geteuid};
use ralph_coordinator::embedded::{PostgresServer, SearchPaths};
use ralph_coordinator::store::Server;
use ralph_git_server::Authority;
use ralph_tests::harness::{Spawned, bound, until};

/// Superuser and password.
pub const LOGIN: &str = "ralph:secret";
/// User who logs in with a certificate of this name.
pub const CERTAIN: &str = "certain";

/// Writes files of an authority into a folder: `ca.pem`, and a certificate and a key for each name.
pub fn files(authority: &Authority, folder: &Path, names: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for name in names {
        let [certificate, key] = authority.issue(name).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate).unwrap();
        fs::write(folder.join(format!("{name}.key")), key).unwrap();
    }
}

/// A Postgres that runs until it is dropped.
pub struct TlsPostgres {
    _process: Spawned,
    /// Port on 127.0.0.1. The certificate is for `localhost`.
    pub port: u16,
}

impl TlsPostgres {
    /// Accepts only TLS over the network; `None` if no Postgres here was built with TLS. Every user must be
    /// able to enter `folder`; `certificates` has the files of `localhost`.
    pub async fn start(folder: &Path, certificates: &Path) -> Option<Self> {
        let server = with_tls()?;
        let data = folder.join("tls-postgres");
        fs::create_dir(&data).unwrap();
        fs::write(folder.join("password"), "secret").unwrap();
        for (from, to) in [
            ("ca.pem", "ca.pem"),
            ("localhost.pem", "server.pem"),
            ("localhost.key", "server.key"),
        ] {
            fs::copy(certificates.join(from), folder.join(to)).unwrap();
        }
        give_to_postgres(&data);
        give_to_postgres(&folder.join("password"));
        give_to_postgres(&folder.join("server.key"));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(folder.join("server.key"), private).unwrap();
        let made = as_plain_user(&server.bin.join("initdb"))
            .args(["--username=ralph", "--auth=scram-sha-256", "--no-sync", "-D"])
            .arg(&data)
            .arg(format!("--pwfile={}", folder.join("password").display()))
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let hba =
            format!("hostssl all {CERTAIN} 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n");
        fs::write(data.join("pg_hba.conf"), hba).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let at = |name: &str| folder.join(name).display().to_string();
        let mut command = as_plain_user(&server.bin.join("postgres"));
        command.arg("-D").arg(&data).current_dir(folder);
        for setting in [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "fsync=off".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_ca_file={}", at("ca.pem")),
            format!("ssl_cert_file={}", at("server.pem")),
            format!("ssl_key_file={}", at("server.key")),
        ] {
            command.args(["-c", &setting]);
        }
        let mut process = Spawned::start(&mut command, &folder.join("tls-postgres.log")).unwrap();
        let url = format!("postgres://{LOGIN}@localhost:{port}/postgres?sslmode=require");
        until("connections to the Postgres with TLS", async || {
            let status = process.try_wait();
            assert!(status.is_none(), "it ended, {status:?}: {}", process.output());
            Server::find(&url).await
        })
        .await;
        Some(Self {
            _process: process,
            port,
        })
    }
}

/// A Postgres that was built with TLS.
fn with_tls() -> Option<PostgresServer> {
    let without = b"SSL is not supported by this build";
    let has = |server: &PostgresServer| {
        let program = fs::read(server.bin.join("postgres")).unwrap_or_default();
        !program.windows(without.len()).any(|part| part == without)
    };
    let found = SearchPaths::from_env().postgres().unwrap().into_iter().find(has);
    if found.is_none() {
        eprintln!("skipped: no Postgres here was built with TLS; `apt-get install postgresql` brings one");
    }
    found
}

fn give_to_postgres(path: &Path) {
    if geteuid().is_root() {
        let user = User::from_name("postgres").unwrap().unwrap();
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    }
}

fn as_plain_user(program: &Path) -> Command {
    let mut command = bound(Path::new(if geteuid().is_root() { "setpriv" } else { "env" }));
    if geteuid().is_root() {
        command.args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            "--pdeathsig=KILL",
            "--",
        ]);
    }
    command.arg(program);
    command
}

/// Starts a nats-server with JetStream and these further settings; gives its port on 127.0.0.1.
pub async fn nats(folder: &Path, name: &str, settings: &str) -> (Spawned, u16) {
    let config: PathBuf = folder.join(format!("{name}.conf"));
    let store = folder.join(format!("{name}-store"));
    let text = format!(
        "listen: \"127.0.0.1:-1\"\njetstream {{ store_dir: \"{}\" }}\n{settings}\n",
        store.display()
    );
    fs::write(&config, text).unwrap();
    let server = SearchPaths::from_env().nats().unwrap();
    let mut command = bound(&server.program);
    command.arg("-c").arg(&config);
    let mut process = Spawned::start(&mut command, &folder.join(format!("{name}.log"))).unwrap();
    let port = until("a listening nats-server", async || {
        let status = process.try_wait();
        assert!(status.is_none(), "it ended, {status:?}: {}", process.output());
        let output = process.output();
        let (_, rest) = output.split_once("Listening for client connections on 127.0.0.1:")?;
        output.contains("Server is ready").then_some(())?;
        rest.split_whitespace().next()?.parse::<u16>().ok()
    })
    .await;
    (process, port)
}
