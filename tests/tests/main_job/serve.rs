//! `serve` and `up` on servers that are shared, of another release, or not there.

use std::process::Command;

use ralph_coordinator::embedded::Role;
use ralph_tests::harness::{Spawned, World, binary};

/// The coordinator's program on the servers of this world.
fn command(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(args)
        .current_dir(world.dir())
        .env("RALPH_LISTEN", "127.0.0.1:0")
        .env("DATABASE_URL", world.postgres.as_ref().unwrap().url())
        .env("NATS_URL", world.nats_url(Role::Coordinator).unwrap());
    command
}

/// What it says before it ends by itself.
async fn refuses(world: &World, name: &str, mut command: Command) -> String {
    let mut process = Spawned::start(&mut command, &world.dir().join(name)).unwrap();
    let status = process.wait().await;
    let said = process.output();
    assert!(!status.success(), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_later_release_is_left_to_it() {
    let world = World::calm().await.unwrap();
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9000, 'of a later release', true, '\\x00', 0)",
    )
    .execute(&world.db)
    .await
    .unwrap();
    for (name, args) in [
        ("serve", &["serve"] as &[&str]),
        ("serve-migrate", &["serve", "--migrate"]),
        ("migrate", &["migrate"]),
        ("up", &["up", "--workers", "0"]),
    ] {
        let said = refuses(&world, name, command(&world, args)).await;
        assert!(
            said.contains("made by a later release") && said.contains("step 9000") && said.contains("--data"),
            "{name}: {said}"
        );
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_be_used_is_named_with_what_to_do() {
    let world = World::calm().await.unwrap();
    let url = world.nats_url(Role::Coordinator).unwrap();
    let at = ralph_shared::broker::addresses(&url);
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (name, url, expected) in [
        ("wrong", format!("nats://somebody:wrong@{at}"), at.clone()),
        ("away", format!("nats://{closed}"), closed.to_string()),
    ] {
        let mut serve = command(&world, &["serve"]);
        serve.env("NATS_URL", url);
        let said = refuses(&world, name, serve).await;
        assert!(
            said.contains(&format!("NATS at {expected}")) && said.contains("NATS_URL"),
            "{name}: {said}"
        );
        assert!(!said.contains("somebody:wrong"), "{said}");
        let refused = said.contains("refused the user or the password");
        assert_eq!(refused, name == "wrong", "{said}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_two_coordinators_on_the_same_servers_both_stand() {
    let world = World::calm().await.unwrap();
    let serve = |name: &str| {
        let file = world.dir().join(format!("{name}.token"));
        std::fs::write(&file, format!("a-token-of-{name}-alone")).unwrap();
        let mut command = command(&world, &["serve", "--token-file"]);
        command.arg(file);
        Spawned::start(&mut command, &world.dir().join(format!("{name}.log"))).unwrap()
    };
    let _both = [serve("one"), serve("two")];
    let stand =
        "select count(*) = 2 from api_tokens where id <> $1 and role = 'admin' and revoked_at is null";
    world.until(stand, uuid::Uuid::nil()).await.unwrap();
    world.stop().await;
}
