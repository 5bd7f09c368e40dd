//! Servers that accept only TLS, or need another login than a password in the address.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use ralph_coordinator::embedded::Role;
use ralph_coordinator::store::{self, Server};
use ralph_git_server::{Authority, terminate};
use ralph_tests::harness::{Spawned, World, binary, bound, until};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::tls_servers::{CERTAIN, LOGIN, TlsPostgres, files, nats};

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_behaves_as_in_libpq_at_a_tls_only_postgres() {
    let world = World::calm().await.unwrap();
    let (own, other) = (world.dir().join("own"), world.dir().join("other"));
    files(&Authority::new().unwrap(), &own, &["localhost", CERTAIN]);
    files(&Authority::new().unwrap(), &other, &["localhost"]);
    let Some(postgres) = TlsPostgres::start(world.dir(), &own).await else {
        return;
    };
    let port = postgres.port;
    let root = |folder: &Path| format!("&sslrootcert={}", folder.join("ca.pem").display());
    let (right, wrong) = (root(&own), root(&other));
    for (host, query, refusal) in [
        ("localhost", String::new(), None),
        ("localhost", "?sslmode=disable".to_owned(), Some("no encryption")),
        ("localhost", "?sslmode=allow".to_owned(), None),
        ("localhost", "?sslmode=prefer".to_owned(), None),
        ("localhost", "?sslmode=require".to_owned(), None),
        ("localhost", format!("?sslmode=require{right}"), None),
        (
            "localhost",
            format!("?sslmode=require{wrong}"),
            Some("invalid peer certificate"),
        ),
        (
            "localhost",
            "?sslmode=verify-ca".to_owned(),
            Some("invalid peer certificate"),
        ),
        ("127.0.0.1", format!("?sslmode=verify-ca{right}"), None),
        (
            "127.0.0.1",
            format!("?sslmode=verify-full{right}"),
            Some("not valid for name"),
        ),
        ("localhost", format!("?sslmode=verify-full{right}"), None),
        (
            "localhost",
            format!("?sslmode=verify-full{wrong}"),
            Some("invalid peer certificate"),
        ),
    ] {
        let url = format!("postgres://{LOGIN}@{host}:{port}/postgres{query}");
        let found = Server::find(&url).await;
        match (found, refusal) {
            (Ok(_), None) => {}
            (Err(error), Some(text)) => assert!(error.to_string().contains(text), "{query}: {error}"),
            (found, refusal) => panic!("{host} {query}: {found:?}, but expected {refusal:?}"),
        }
    }

    let admin = format!("postgres://{LOGIN}@localhost:{port}/postgres?sslmode=verify-full{right}");
    let db = store::connect(&admin, 1).await.unwrap();
    sqlx::query("create role certain login")
        .execute(&db)
        .await
        .unwrap();
    let encrypted: bool = sqlx::query_scalar("select ssl from pg_stat_ssl where pid = pg_backend_pid()")
        .fetch_one(&db)
        .await
        .unwrap();
    assert!(encrypted);
    db.close().await;
    let certain = format!("postgres://{CERTAIN}@localhost:{port}/postgres?sslmode=verify-full{right}");
    let error = Server::find(&certain).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let at = |ending: &str| own.join(format!("{CERTAIN}.{ending}")).display().to_string();
    let with_certificate = format!("{certain}&sslcert={}&sslkey={}", at("pem"), at("key"));
    Server::find(&with_certificate).await.unwrap();
}

/// A program with the environment of a start by hand, without the world's servers.
fn program(world: &World, name: &str, args: &[&str]) -> Command {
    let mut command = bound(&binary(name));
    command
        .args(args)
        .current_dir(world.dir())
        .env("HOME", world.dir())
        .env("RALPH_LISTEN", "127.0.0.1:0");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_over_tls_only_with_secrets_from_files() {
    let world = World::calm().await.unwrap();
    let dir = world.dir();
    let own = dir.join("own");
    files(&Authority::new().unwrap(), &own, &["localhost", "client"]);
    let Some(postgres) = TlsPostgres::start(dir, &own).await else {
        return;
    };
    let at = |name: &str| own.join(name).display().to_string();
    let verifying = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n\
         authorization {{ token: \"a-token-of-the-broker\" }}",
        at("localhost.pem"),
        at("localhost.key"),
        at("ca.pem")
    );
    let (_nats, port) = nats(dir, "verifying", &verifying).await;
    let url = format!(
        "postgres://{LOGIN}@localhost:{}/postgres?sslmode=verify-full",
        postgres.port
    );
    for (name, text) in [
        ("database-url", url.clone()),
        ("nats-url", format!("tls://localhost:{port}")),
        ("nats-token", "a-token-of-the-broker".to_owned()),
    ] {
        fs::write(own.join(name), text + "\n").unwrap();
    }
    let common = [
        ("RALPH_CA_FILE", at("ca.pem")),
        ("NATS_URL_FILE", at("nats-url")),
        ("NATS_TOKEN_FILE", at("nats-token")),
    ];
    let certificate = [("NATS_CERT", at("client.pem")), ("NATS_KEY", at("client.key"))];
    let mut serve = program(&world, "ralph-coordinator", &["serve", "--migrate"]);
    serve
        .envs(common.clone())
        .envs(certificate.clone())
        .env("DATABASE_URL_FILE", at("database-url"));
    let coordinator = Spawned::start(&mut serve, &dir.join("serve.log")).unwrap();
    until("a serving coordinator", async || {
        coordinator.output().contains("serving")
    })
    .await;
    assert!(
        !coordinator.output().contains("PLAIN TEXT"),
        "{}",
        coordinator.output()
    );

    let agent = format!("{} --help", binary("ralph-scripted-agent").display());
    let run = [
        "run",
        "--name",
        "over-tls",
        "--agent",
        &agent,
        "--data",
        "worker-data",
    ];
    let mut without = program(&world, "ralph-worker", &run);
    without.envs(common.clone());
    let mut without = Spawned::start(&mut without, &dir.join("without.log")).unwrap();
    until("the worker's error", async || {
        without.output().contains("CertificateRequired")
    })
    .await;
    without.kill();
    let mut with = program(&world, "ralph-worker", &run);
    with.envs(common).envs(certificate);
    let worker = Spawned::start(&mut with, &dir.join("with.log")).unwrap();
    let verified = format!("{url}&sslrootcert={}", at("ca.pem"));
    let db = store::connect(&verified, 1).await.unwrap();
    until("the worker's hello", async || {
        let query = "select count(*) = 1 from workers where name = 'over-tls'";
        let there: bool = sqlx::query_scalar(query).fetch_one(&db).await.unwrap();
        there.then_some(()).ok_or_else(|| worker.output())
    })
    .await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_a_coordinator_over_https_with_a_private_ca() {
    let world = World::calm().await.unwrap();
    let dir = world.dir();
    let authority = Authority::new().unwrap();
    files(&authority, dir, &[]);
    fs::write(dir.join("token"), "a-token-from-a-file\n").unwrap();
    let mut serve = program(&world, "ralph-coordinator", &["serve", "--token-file", "token"]);
    serve
        .env("DATABASE_URL", world.postgres.as_ref().unwrap().url())
        .env("NATS_URL", world.nats_url(Role::Coordinator).unwrap());
    let coordinator = Spawned::start(&mut serve, &dir.join("serve.log")).unwrap();
    let plain = until("a serving coordinator", async || {
        let text = coordinator.output();
        let (_, rest) = text.split_once("serving address=")?;
        rest.split_whitespace().next()?.parse().ok()
    })
    .await;
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", front.local_addr().unwrap().port());
    let front = tokio::spawn(terminate(
        front,
        authority.certify("localhost", false).unwrap(),
        plain,
    ));
    let list = |trusts: bool| {
        let mut command = program(&world, "ralph-coordinator", &["worker", "list"]);
        command.env("RALPH_URL", &url).env("RALPH_TOKEN_FILE", "token");
        if trusts {
            command.env("RALPH_CA_FILE", "ca.pem");
        }
        command.output().unwrap()
    };
    let (stranger, friend) = tokio::task::block_in_place(|| (list(false), list(true)));
    let text = String::from_utf8_lossy(&stranger.stderr);
    assert!(
        !stranger.status.success() && text.contains("certificate"),
        "{text}"
    );
    assert!(
        friend.status.success(),
        "{}",
        String::from_utf8_lossy(&friend.stderr)
    );
    front.abort();
}

type Variables = &'static [(&'static str, &'static str)];

/// A JWT for `of` at NATS, signed by `by`.
fn signed(by: &KeyPair, of: &KeyPair, nats: Value) -> String {
    let claims = json!({
        "jti": "1", "iat": 1_700_000_000, "iss": by.public_key(), "sub": of.public_key(), "name": "test", "nats": nats,
    });
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!(
        "{}.{}",
        part(json!({"typ": "JWT", "alg": "ed25519-nkey"})),
        part(claims)
    );
    let signature = URL_SAFE_NO_PAD.encode(by.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_login_opens_only_the_broker_that_needs_it() {
    let world = World::calm().await.unwrap();
    let dir = world.dir();
    let user = KeyPair::new_user();
    let [operator, account, member] = [
        KeyPair::new_operator(),
        KeyPair::new_account(),
        KeyPair::new_user(),
    ];
    // With operators, JetStream needs a system account.
    let system = KeyPair::new_account();
    let mut unlimited = json!({
        "type": "account", "version": 2,
        "limits": {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                   "leaf": -1},
    });
    let without_jetstream = unlimited.clone();
    for limit in ["mem_storage", "disk_storage", "streams", "consumer"] {
        unlimited["limits"][limit] = json!(-1);
    }
    let operators = format!(
        "operator: \"{}\"\nresolver: MEMORY\nresolver_preload: {{ {}: \"{}\", {system}: \"{}\" }}\n\
         system_account: {system}",
        signed(&operator, &operator, json!({"type": "operator", "version": 2})),
        account.public_key(),
        signed(&operator, &account, unlimited),
        signed(&operator, &system, without_jetstream),
        system = system.public_key(),
    );
    let of_member = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY \
         SEED------\n",
        signed(&account, &member, of_member),
        member.seed().unwrap()
    );
    fs::write(dir.join("creds"), credentials).unwrap();
    fs::write(
        dir.join("seed"),
        format!("# of the test\n{}\n", user.seed().unwrap()),
    )
    .unwrap();
    fs::write(dir.join("password"), "pass word\n").unwrap();
    let kinds: [(&str, String, Variables); 4] = [
        (
            "token",
            "authorization { token: \"t0ken\" }".to_owned(),
            &[("NATS_TOKEN", "t0ken")],
        ),
        (
            "password",
            "authorization { user: u, password: \"pass word\" }".to_owned(),
            &[("NATS_USER", "u"), ("NATS_PASSWORD_FILE", "password")],
        ),
        (
            "nkey",
            format!("authorization {{ users: [ {{ nkey: {} }} ] }}", user.public_key()),
            &[("NATS_NKEY", "seed")],
        ),
        ("creds", operators, &[("NATS_CREDS", "creds")]),
    ];
    let mut servers = Vec::new();
    for (name, settings, _) in &kinds {
        servers.push(nats(dir, name, settings).await);
    }
    let doctor = |port: u16, login: &[(&str, &str)]| {
        let mut command = program(&world, "ralph-coordinator", &["doctor", "--output", "json"]);
        command
            .env("NATS_URL", format!("nats://127.0.0.1:{port}"))
            .envs(login.iter().copied());
        let output = tokio::task::block_in_place(|| command.output()).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (at, (name, ..)) in kinds.iter().enumerate() {
        for (with, (_, _, login)) in kinds.iter().enumerate() {
            let text = doctor(servers[at].1, login);
            assert_eq!(
                text.contains("with JetStream, named by NATS_URL"),
                at == with,
                "{name}, {login:?}: {text}"
            );
        }
    }
    let both = doctor(servers[0].1, &[("NATS_TOKEN", "t0ken"), ("NATS_NKEY", "seed")]);
    assert!(both.contains("logs in in one way"), "{both}");
    let missing = doctor(servers[0].1, &[("NATS_CREDS", "none")]);
    assert!(
        missing.contains("NATS_CREDS") && missing.contains("No such file"),
        "{missing}"
    );
}
