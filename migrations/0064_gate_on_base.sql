-- The gate is tried on the commit that a feature begins at, before anything of it lands: where it fails there, it says nothing
-- about an attempt. A task with the role `check` tries it; what came of it stands by repository, commit and commands, so that
-- another feature with the same ones needs no try of its own.

alter type session_kind add value 'check';

-- A new value can't be named in the transaction that adds it, so both name the others.
alter table tasks
  drop constraint tasks_role_check,
  add constraint tasks_role_check check (role not in ('verify', 'integrate'));

create or replace function agent_needed(kind session_kind, of_task text, of_run text) returns text
language sql immutable parallel safe
return case when kind in ('spec', 'plan', 'build', 'work', 'verify', 'review', 'distill')
            then coalesce(nullif(of_task, ''), nullif(of_run, ''), 'default')
            else '' end;

create table gate_checks (
  repo_id text not null,
  base_commit text not null,
  -- Of the commands, which may be long.
  gate_hash text not null,
  passed boolean not null,
  -- The command that failed, and the end of its output.
  command text,
  output text,
  worker text not null,
  duration_ms bigint not null,
  checked_at timestamptz not null default clock_timestamp(),
  primary key (repo_id, base_commit, gate_hash),
  check (passed = (command is null))
);

-- The task that tries the gate: while it is not over, nothing of the feature lands.
alter table features add column check_task uuid;

-- A person said that the gate may fail on the base.
alter table runs add column gate_may_fail boolean not null default false;

-- What a gate said that refused an attempt, without what differs from run to run; null where it names what the task changed.
alter table integrations add column gate_signature text;
