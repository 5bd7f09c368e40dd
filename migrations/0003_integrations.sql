-- Integrations: how a passed attempt comes onto its feature's branch (DESIGN 6).
--
-- waiting → turn → decided → merged, with conflict, failed and void as other ends. A feature has one turn at a time;
-- what was decided is pushed by anyone, with the same old and new head; a task lands once.

create type integration_state as enum ('waiting', 'turn', 'decided', 'merged', 'conflict', 'gate_failed', 'failed', 'withdrawn', 'reverted');

create table integrations (
  id uuid primary key,
  feature_id uuid not null references features on delete cascade,
  task_id uuid not null references tasks on delete cascade,
  attempt integer not null,
  source_commit text not null,
  source_ref text not null,
  state integration_state not null,
  dispatch_id uuid,
  old text,
  new text,
  new_ref text,
  landed_commit text,
  empty boolean not null default false,
  tries integer not null default 0,
  message text,
  queued_at timestamptz not null default now(),
  decided_at timestamptz,
  ended_at timestamptz,
  constraint decided_is_whole check (state <> 'decided' or (old is not null and new is not null and new_ref is not null)),
  constraint merged_names_its_commit check (state <> 'merged' or landed_commit is not null)
);

create unique index one_turn_per_feature on integrations (feature_id) where state in ('turn', 'decided');
create unique index one_landing_per_task on integrations (task_id) where state = 'merged';
create unique index one_open_integration_per_task on integrations (task_id) where state in ('waiting', 'turn', 'decided');
create index integrations_waiting on integrations (feature_id, queued_at, id) where state = 'waiting';
