-- Who waits before a closed door (SPEC 7.3): an agent on one worker, or an account wherever it is used.
--
-- A ready task says which agent it needs, so that a claim is handed only what its worker can start now. What needs no agent
-- (a landing, a change of branches) needs the agent ''. The agent stands before the feature in the index: a claim names few.

create function agent_needed(kind session_kind, of_task text, of_run text) returns text
language sql immutable parallel safe
return case when kind in ('integrate', 'git') then '' else coalesce(nullif(of_task, ''), nullif(of_run, ''), 'default') end;

alter table ready_tasks add column agent text;

update ready_tasks q
set agent = agent_needed(q.kind, x.agent, r.agent)
from task_texts x, features f
left join runs r on r.id = f.current_run
where x.task_id = q.task_id and f.id = q.feature_id;

alter table ready_tasks alter column agent set not null;

drop index ready_queue;
create index ready_queue on ready_tasks (pool, agent, feature_id, priority, task_id);

alter table workers
  -- The account of each of its agents, in the order of agents.
  add column accounts text[] not null default '{}',
  -- Its agents that fail at the door, as of its last heartbeat: agent, door, reason, failures, until.
  add column doors jsonb not null default '[]';

-- Accounts whose provider limits the rate or is overloaded: a row from the first such failure until a session that was
-- claimed after the last one got past it.
create table account_doors (
  account text primary key,
  door text not null check (door in ('rate_limit', 'overload')),
  reason text not null,
  -- The worker that met it last.
  worker text not null,
  failures integer not null check (failures > 0),
  closed_at timestamptz not null,
  -- Nothing that uses it is claimed before.
  until timestamptz not null
);

-- What agents asked of a person while nobody was there: each was told to decide and to say so. For whoever looks later.
create table questions (
  dispatch_id uuid primary key references dispatches on delete cascade,
  task_id uuid not null,
  asked text[] not null check (cardinality(asked) > 0),
  asked_at timestamptz not null default now()
);

create index questions_of_task on questions (task_id);
