//! A database restored from a backup: later landings are found on their branch, and nobody pays for the work
//! again.

use ralph_coordinator::domain::states::{RunOutcome, TaskState};
use ralph_tests::harness::{FeatureOptions, Repository, WorkerOptions, World};

/// Copies all tables, as a dump would.
const DUMP: &str = "do $$ declare t text; begin
    create schema backup;
    for t in select tablename from pg_tables where schemaname = 'public' loop
        execute format('create table backup.%1$I as table public.%1$I', t);
    end loop;
end $$";

/// Restores all tables from the copies.
const RESTORE: &str = "do $$ declare t text; columns text; begin
    set local session_replication_role = replica;
    for t in select tablename from pg_tables where schemaname = 'public' loop
        select string_agg(quote_ident(column_name), ', ') into columns
        from information_schema.columns
        where table_schema = 'public' and table_name = t and is_generated = 'NEVER';
        execute format('delete from public.%I', t);
        execute format('insert into public.%1$I (%2$s) overriding system value select %2$s from backup.%1$I', t, columns);
    end loop;
end $$";

const TASKS: &str = r"
- key: a
  title: A
  description: |
    @effect a
    @write a.txt a
    @done
- key: b
  title: B
  after: [a]
  description: |
    @effect b
    @write b.txt b
    @done
";

#[tokio::test(flavor = "multi_thread")]
async fn landings_after_the_backup_are_found_and_not_done_again() {
    let world = World::start().await.unwrap();
    let repository = Repository::create(world.dir(), &[("README", "hello\n")]).unwrap();
    let options = FeatureOptions::default();
    let (_, run, ids) = world
        .submit("f", Some(&repository), TASKS, &options)
        .await
        .unwrap();
    sqlx::raw_sql(DUMP).execute(&world.db).await.unwrap();

    let coordinator = world.coordinator_process("before", None).unwrap();
    let worker = world.worker(&WorkerOptions::named("before")).unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Complete,
        "{}",
        world.tell().await
    );
    drop((coordinator, worker));
    let head = repository.head("ralph/f").unwrap();
    assert_eq!(world.effects_lines().len(), 2);
    sqlx::raw_sql(RESTORE).execute(&world.db).await.unwrap();

    let coordinator = world.coordinator_process("after", None).unwrap();
    let worker = world.worker(&WorkerOptions::named("after")).unwrap();
    assert_eq!(
        world.ended(run).await.unwrap(),
        RunOutcome::Complete,
        "{}",
        world.tell().await
    );
    assert_eq!(world.effects_lines().len(), 2, "nothing is done again");
    assert_eq!(repository.head("ralph/f").unwrap(), head);
    let states: Vec<TaskState> = sqlx::query_scalar("select state from tasks where id = any($1)")
        .bind(ids.iter().map(|id| id.0).collect::<Vec<_>>())
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(states, [TaskState::Done; 2]);
    let landed: i64 = sqlx::query_scalar("select count(*) from integrations where state = 'merged'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(landed, 2);
    drop((coordinator, worker));
}
