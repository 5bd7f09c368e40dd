//! Tests of the private servers, with real programs: `make setup` (or RALPH_PG_BIN and RALPH_NATS_SERVER)
//! provides them.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use async_nats::jetstream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ralph_coordinator::embedded::{
    DataDir, DataDirError, Nats, Phase, Postgres, Role, SearchPaths, ServerError, Tuning,
};
use sqlx::{Connection, PgConnection};

/// Far more time than any step takes; only a failing test reaches it.
const BOUND: Duration = Duration::from_secs(30);

async fn start_postgres(data: &DataDir) -> Postgres {
    let servers = SearchPaths::from_env().postgres().unwrap();
    Postgres::start(&servers, data, Tuning::Tests).await.unwrap()
}

async fn start_nats(data: &DataDir) -> Nats {
    let server = SearchPaths::from_env().nats().unwrap();
    Nats::start(&server, data, Tuning::Tests).await.unwrap()
}

async fn connect(nats: &Nats, role: Role) -> async_nats::Client {
    let address: async_nats::ServerAddr = nats.url_for(role).parse().unwrap();
    let (user, password) = (
        address.username().unwrap().to_owned(),
        address.password().unwrap().to_owned(),
    );
    async_nats::ConnectOptions::with_user_and_password(user, password)
        .connect(address)
        .await
        .unwrap()
}

/// Polls until `holds` returns true; panics after [`BOUND`].
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let wait = async {
        while !holds() {
            tick.tick().await;
        }
    };
    tokio::time::timeout(BOUND, wait)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}

#[tokio::test]
async fn postgres_keeps_its_data_over_a_stop_and_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let postgres = start_postgres(&data).await;
    let url = postgres.url();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::query("create table kept as select 42 as number")
        .execute(&mut connection)
        .await
        .unwrap();
    postgres.stop().await;
    assert!(
        sqlx::query("select 1").execute(&mut connection).await.is_err(),
        "a stop ends sessions"
    );

    let postgres = start_postgres(&data).await;
    assert_eq!(postgres.url(), url, "the address survives a restart");
    let mut phases = postgres.phases();
    kill(
        Pid::from_raw(postgres.pid().unwrap().cast_signed()),
        Signal::SIGKILL,
    )
    .unwrap();
    let again = phases.wait_for(|phase| matches!(phase, Phase::Running { starts, .. } if *starts > 1));
    tokio::time::timeout(BOUND, again).await.unwrap().unwrap();
    let mut connection = loop {
        if let Ok(connection) = PgConnection::connect(&url).await {
            break connection;
        }
        tokio::task::yield_now().await;
    };
    let number: i32 = sqlx::query_scalar("select number from kept")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(number, 42);
    postgres.stop().await;
}

/// Run as root, the server runs as another user, who can't enter the folder above.
#[tokio::test]
async fn every_installed_postgres_starts_below_a_closed_folder() {
    for server in SearchPaths::from_env().postgres().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("a,b")).unwrap();
        let servers = [server.clone()];
        let started = Postgres::start(&servers, &data, Tuning::Tests).await;
        let postgres = started.unwrap_or_else(|error| panic!("{}: {error}", server.bin.display()));
        assert_eq!(postgres.version(), server.version);
        postgres.stop().await;
    }
}

#[tokio::test]
async fn postgres_of_another_major_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    start_postgres(&data).await.stop().await;
    fs::write(data.path("postgres/PG_VERSION"), "12\n").unwrap();

    let servers = SearchPaths::from_env().postgres().unwrap();
    let error = Postgres::start(&servers, &data, Tuning::Tests).await.unwrap_err();
    assert!(matches!(error, ServerError::OtherMajor { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("was made by Postgres 12") && message.contains("--data"),
        "{message}"
    );
}

#[tokio::test]
async fn postgres_with_a_broken_setting_says_why_it_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    start_postgres(&data).await.stop().await;
    let settings = data.path("postgres/postgresql.conf");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text + "no_such_setting = 1\n").unwrap();

    let servers = SearchPaths::from_env().postgres().unwrap();
    let error = Postgres::start(&servers, &data, Tuning::Tests).await.unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

#[tokio::test]
async fn postgres_requires_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let postgres = start_postgres(&data).await;
    let url = postgres
        .url()
        .replace(&data.secret("postgres").unwrap(), "guessed");
    let error = PgConnection::connect(&url).await.unwrap_err();
    assert!(
        error.to_string().contains("password authentication failed"),
        "{error}"
    );
    postgres.stop().await;
}

#[tokio::test]
async fn nats_comes_back_on_its_port_with_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let nats = start_nats(&data).await;
    let url = nats.url_for(Role::Coordinator);
    let jetstream = jetstream::new(connect(&nats, Role::Coordinator).await);
    let config = jetstream::stream::Config {
        name: "KEPT".into(),
        subjects: vec!["kept".into()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    jetstream
        .publish("kept", "message".into())
        .await
        .unwrap()
        .await
        .unwrap();

    // After a crash the supervisor starts the server again.
    let mut phases = nats.phases();
    kill(Pid::from_raw(nats.pid().unwrap().cast_signed()), Signal::SIGKILL).unwrap();
    let again = phases.wait_for(|phase| matches!(phase, Phase::Running { starts, .. } if *starts > 1));
    tokio::time::timeout(BOUND, again).await.unwrap().unwrap();
    let mut stream = jetstream.get_stream("KEPT").await;
    while stream.is_err() {
        tokio::task::yield_now().await;
        stream = jetstream.get_stream("KEPT").await;
    }
    assert_eq!(stream.unwrap().cached_info().state.messages, 1);

    nats.stop().await;
    let nats = start_nats(&data).await;
    assert_eq!(
        nats.url_for(Role::Coordinator),
        url,
        "the address survives a restart"
    );
    nats.kill().await;
    fs::remove_dir_all(Nats::store(&data)).unwrap();
    let nats = start_nats(&data).await;
    let jetstream = jetstream::new(connect(&nats, Role::Coordinator).await);
    assert!(
        jetstream.get_stream("KEPT").await.is_err(),
        "a wiped store starts empty"
    );
    nats.stop().await;
}

#[tokio::test]
async fn nats_takes_another_port_when_its_own_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port();
    data.folder("nats").unwrap();
    fs::write(data.path("nats/port"), taken.to_string()).unwrap();
    let nats = start_nats(&data).await;
    assert!(!nats.url_for(Role::Worker).ends_with(&format!(":{taken}")));
    nats.stop().await;
}

#[tokio::test]
async fn a_worker_takes_tickets_and_reports_but_cannot_act_as_a_coordinator() {
    use futures::StreamExt;
    use jetstream::{consumer, stream};

    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path()).unwrap();
    let nats = start_nats(&data).await;
    let coordinator = connect(&nats, Role::Coordinator).await;
    let own = jetstream::new(coordinator.clone());
    let stream = |name: &str, subject: &str| stream::Config {
        name: name.into(),
        subjects: vec![subject.into()],
        retention: stream::RetentionPolicy::WorkQueue,
        ..Default::default()
    };
    let tickets = own
        .create_stream(stream("RALPH_TICKETS", "ralph.tickets.*"))
        .await
        .unwrap();
    own.create_stream(stream("RALPH_REPORTS", "ralph.reports"))
        .await
        .unwrap();
    let pool = consumer::pull::Config {
        durable_name: Some("pool-default".into()),
        filter_subject: "ralph.tickets.default".into(),
        ..Default::default()
    };
    tickets.create_consumer(pool).await.unwrap();
    own.publish("ralph.tickets.default", "work".into())
        .await
        .unwrap()
        .await
        .unwrap();

    let worker = connect(&nats, Role::Worker).await;
    let theirs = jetstream::new(worker.clone());
    let consumer: consumer::PullConsumer = theirs
        .get_stream("RALPH_TICKETS")
        .await
        .unwrap()
        .get_consumer("pool-default")
        .await
        .unwrap();
    let mut batch = consumer.fetch().max_messages(1).messages().await.unwrap();
    let ticket = batch.next().await.unwrap().unwrap();
    ticket.double_ack().await.unwrap();
    theirs
        .publish("ralph.reports", "report".into())
        .await
        .unwrap()
        .await
        .unwrap();

    // A worker can answer orders.
    let mut orders = worker.subscribe("ralph.control.one").await.unwrap();
    // Send a request on the same connection: its answer proves that the server knows the subscription.
    theirs.get_stream("RALPH_TICKETS").await.unwrap();
    let (answer, ()) = tokio::join!(coordinator.request("ralph.control.one", "drain".into()), async {
        let order = tokio::time::timeout(BOUND, orders.next()).await.unwrap().unwrap();
        worker
            .publish(order.reply.unwrap(), "draining".into())
            .await
            .unwrap();
    });
    assert_eq!(answer.unwrap().payload, "draining");

    // A worker may neither publish nor read any of this.
    let mut all = coordinator.subscribe(">").await.unwrap();
    own.query_account().await.unwrap();
    for subject in [
        "ralph.tickets.default",
        "ralph.control.one",
        "ralph.events.f",
        "$JS.API.STREAM.DELETE.RALPH_REPORTS",
    ] {
        worker.publish(subject, "forged".into()).await.unwrap();
    }
    let mut forbidden = jetstream::new(worker.clone());
    forbidden.set_timeout(Duration::from_millis(300));
    assert!(forbidden.get_stream("RALPH_REPORTS").await.is_err());
    assert!(forbidden.delete_stream("RALPH_TICKETS").await.is_err());
    worker.publish("ralph.hello", "the end".into()).await.unwrap();
    worker.flush().await.unwrap();
    loop {
        let message = tokio::time::timeout(BOUND, all.next()).await.unwrap().unwrap();
        assert_ne!(message.payload, "forged", "{}", message.subject);
        if message.subject.as_str() == "ralph.hello" {
            break;
        }
    }
    nats.stop().await;
}

#[tokio::test]
async fn a_data_folder_has_one_holder_and_one_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let data = DataDir::open(&path).unwrap();
    let error = DataDir::open(&path).unwrap_err();
    assert!(matches!(error, DataDirError::InUse { .. }));
    assert!(
        error
            .to_string()
            .contains(&format!("process {}", std::process::id())),
        "{error}"
    );

    let secret = data.secret("token").unwrap();
    for private in ["", "secrets", "secrets/token", "lock"] {
        let mode = fs::metadata(data.path(private)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{private}");
    }
    drop(data);
    let data = DataDir::open(&path).unwrap();
    assert_eq!(data.secret("token").unwrap(), secret);
    drop(data);

    fs::write(path.join("layout.json"), r#"{"layout": 999}"#).unwrap();
    let error = DataDir::open(&path).unwrap_err();
    assert!(
        matches!(error, DataDirError::Layout { found: 999, .. }),
        "{error}"
    );
}

#[test]
fn a_data_folder_in_a_repository_stays_out_of_commits() {
    let folder = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    let path = folder.path().join(".ralph");
    let data = DataDir::open(&path).unwrap();
    data.secret("token").unwrap();
    let untracked = ["status", "--porcelain", "--untracked-files=all"];
    assert_eq!(git(&untracked), "");
    for shared in ["knowledge", "features/due"] {
        fs::create_dir_all(path.join(shared)).unwrap();
        fs::write(path.join(shared).join("plan.md"), "For everyone.\n").unwrap();
    }
    assert_eq!(
        git(&untracked),
        "?? .ralph/features/due/plan.md\n?? .ralph/knowledge/plan.md\n"
    );
    drop(data);

    // A data folder doesn't use folders that came with a clone: their modes are open.
    let open = |name: &str| {
        fs::create_dir_all(path.join(name)).unwrap();
        fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    open("workers");
    let data = DataDir::open(&path).unwrap();
    let error = data.folder("workers").unwrap_err();
    assert!(matches!(error, DataDirError::CameAlong { .. }), "{error}");
    drop(data);
    open("secrets");
    let error = DataDir::open(&path).unwrap_err();
    assert!(error.to_string().contains(".ralph/secrets"), "{error}");
    fs::set_permissions(path.join("secrets"), fs::Permissions::from_mode(0o700)).unwrap();

    // Tracked files are refused whatever their modes: a clone with a strict umask closes them.
    fs::write(path.join("secrets/token"), "known to others").unwrap();
    git(&["add", "--force", ".ralph/secrets/token"]);
    let error = DataDir::open(&path).unwrap_err();
    assert!(matches!(error, DataDirError::Tracked { .. }), "{error}");
    assert!(error.to_string().contains(".ralph/secrets/token"), "{error}");
    git(&["rm", "--quiet", "--cached", ".ralph/secrets/token"]);
    drop(DataDir::open(&path).unwrap());

    // An existing .gitignore is not changed.
    fs::write(path.join(".gitignore"), "*\n").unwrap();
    drop(DataDir::open(&path).unwrap());
    assert_eq!(fs::read_to_string(path.join(".gitignore")).unwrap(), "*\n");
}

/// The process that the next test kills: it starts both servers, prints READY, and waits to be killed.
#[tokio::test]
#[ignore = "started by killed_parent_leaves_no_process"]
async fn hold_servers_until_killed() {
    let data = DataDir::open(Path::new(&std::env::var("RALPH_TEST_DATA").unwrap())).unwrap();
    let _postgres = start_postgres(&data).await;
    let _nats = start_nats(&data).await;
    println!("READY");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn killed_parent_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["hold_servers_until_killed", "--exact", "--ignored", "--nocapture"])
        .env("RALPH_TEST_DATA", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(parent.stdout.take().unwrap());
    let ready = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("READY"));
    assert!(ready, "the servers did not start");
    let error = DataDir::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", parent.id())), "{error}");

    let children = descendants(parent.id());
    assert!(
        children.len() > 4,
        "postgres with its own children, and nats-server: {children:?}"
    );
    kill(Pid::from_raw(parent.id().cast_signed()), Signal::SIGKILL).unwrap();
    parent.wait().unwrap();
    until("all children to end", || {
        !children.iter().any(|child| lives(*child))
    })
    .await;

    // A new process can use the data of the killed one.
    let data = DataDir::open(folder.path()).unwrap();
    start_postgres(&data).await.stop().await;
    start_nats(&data).await.stop().await;
}

/// State and parent of a process, from `/proc/PID/stat`.
fn stat(pid: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// A zombie counts as ended, though nobody has reaped it.
fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z")
}

fn descendants(of: u32) -> Vec<u32> {
    let parents: HashMap<u32, u32> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let is_below = |pid: &u32| {
        let mut at = *pid;
        while let Some(parent) = parents.get(&at) {
            if *parent == of {
                return true;
            }
            at = *parent;
        }
        false
    };
    parents.keys().copied().filter(is_below).collect()
}
