-- The graph of tasks: what a user submitted and how far it is.
--
-- A task row is hot: every claim and every report updates it. So it is narrow, its texts stand in task_texts, and no
-- index covers a column that changes while the task runs: updates stay heap-only. Which task is next is answered by
-- ready_tasks, a queue that holds exactly the tasks that may be claimed; its cost doesn't grow with the graph.

create type feature_state as enum ('draft', 'planned', 'ready', 'running', 'paused', 'done', 'failed', 'cancelled');
create type task_state as enum
  ('pending', 'blocked', 'in_progress', 'done', 'failed', 'cancelled', 'skipped', 'needs_review');
create type session_kind as enum ('spec', 'plan', 'build', 'work', 'verify', 'review', 'distill', 'integrate', 'git');
create type verification as enum ('none', 'pending', 'passed', 'failed');
create type failure_policy as enum ('continue', 'stop');
create type run_outcome as enum ('complete', 'failure', 'limit_reached', 'blocked', 'no_plan', 'interrupted');

create table features (
  id uuid primary key,
  name text not null check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  -- Normalised identity of the repository: memory and names are scoped to it. Empty for features without one.
  repo_id text not null default '',
  -- Address or path that workers hand to git; null for features without code.
  repo_address text,
  base_ref text,
  base_commit text check (base_commit ~ '^[0-9a-f]{40,64}$'),
  branch text,
  state feature_state not null,
  max_parallel integer not null check (max_parallel > 0),
  failure_policy failure_policy not null default 'continue',
  -- How many tasks are in each state; kept by every transition, checked by a recount. What is in progress counts as
  -- pending: claims move tasks between the two without the feature's lock.
  pending integer not null default 0 check (pending >= 0),
  blocked integer not null default 0 check (blocked >= 0),
  done integer not null default 0 check (done >= 0),
  failed integer not null default 0 check (failed >= 0),
  cancelled integer not null default 0 check (cancelled >= 0),
  skipped integer not null default 0 check (skipped >= 0),
  needs_review integer not null default 0 check (needs_review >= 0),
  current_run uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (repo_id, name),
  constraint a_repository_has_a_base
    check (repo_address is null or (base_ref is not null and base_commit is not null and branch is not null))
) with (fillfactor = 50);

create unique index features_short on features (right(replace(id::text, '-', ''), 12) text_pattern_ops);
create index features_running on features (id) where state = 'running';

-- Long texts of a feature, apart from its counters.
create table feature_texts (
  feature_id uuid primary key references features on delete cascade,
  description text not null default '',
  spec text,
  plan text
);

create table runs (
  id uuid primary key,
  feature_id uuid not null references features on delete cascade,
  outcome run_outcome,
  reason text,
  -- Limits; null is "no limit" (SPEC 3.4).
  max_iterations integer check (max_iterations > 0),
  max_time_ms bigint check (max_time_ms > 0),
  max_cost_usd double precision check (max_cost_usd > 0),
  max_tokens bigint check (max_tokens > 0),
  session_ms bigint not null check (session_ms > 0),
  idle_ms bigint not null check (idle_ms > 0),
  output_bytes bigint not null check (output_bytes > 0),
  backoff_ms bigint not null check (backoff_ms >= 0),
  model text,
  model_strategy text not null,
  agent text,
  -- What was used so far; never fenced, what was spent was spent.
  iterations integer not null default 0,
  succeeded integer not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cost_usd double precision not null default 0,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint an_end_has_an_outcome check ((ended_at is null) = (outcome is null))
) with (fillfactor = 50);

create index runs_of_feature on runs (feature_id, started_at desc);
create unique index runs_short on runs (right(replace(id::text, '-', ''), 12) text_pattern_ops);
create unique index one_open_run_per_feature on runs (feature_id) where ended_at is null;
alter table features add foreign key (current_run) references runs on delete set null;

create table tasks (
  id uuid primary key,
  feature_id uuid not null references features on delete cascade,
  parent_id uuid references tasks on delete cascade,
  state task_state not null,
  -- What the next dispatch of this task does; null for a task with children.
  next_kind session_kind,
  verify boolean not null,
  verification verification not null default 'none',
  -- A failed, cancelled or stopped ancestor keeps the subtree from being worked on.
  held boolean not null default false,
  priority integer not null default 0,
  max_retries integer not null check (max_retries >= 0),
  -- Unresolved blockers of its own, plus one while its parent is closed (DESIGN 2, graph transactions).
  open_blockers integer not null default 0 check (open_blockers >= 0),
  -- Children that are not done, skipped or cancelled.
  open_children integer not null default 0 check (open_children >= 0),
  children integer not null default 0 check (children >= open_children),
  -- Number of the last attempt; numbers are never reused.
  attempt integer not null default 0,
  -- The current dispatch: the fence (DESIGN 1.2). It moves only when the task is claimed or taken back.
  dispatch_id uuid,
  -- Consecutive failures, and what doesn't count as one.
  failures smallint not null default 0,
  no_sigils smallint not null default 0,
  door_failures smallint not null default 0,
  lost_alone smallint not null default 0,
  conflicts smallint not null default 0,
  verify_tries smallint not null default 0,
  -- Where the next dispatch starts: a commit and the ref that holds it; null for the feature branch.
  start_commit text,
  start_ref text,
  constraint only_leaves_are_worked_on check (children = 0 or next_kind is null)
-- Half of a page is free, so that a batch which claims every task on it finds room for all new versions.
) with (fillfactor = 45);

create unique index tasks_short on tasks (right(replace(id::text, '-', ''), 12) text_pattern_ops);
create index tasks_of_feature on tasks (feature_id, id);
create index tasks_of_parent on tasks (parent_id) where parent_id is not null;

create table task_texts (
  task_id uuid primary key references tasks on delete cascade,
  key text not null,
  title text not null check (title <> ''),
  description text not null default '',
  pool text not null default 'default' check (pool ~ '^[a-z0-9-]{1,40}$'),
  agent text,
  model text,
  -- Why it needs a person, or why it failed; for screens.
  reason text
);

-- What needs a person or failed: few rows, and they are found without reading the others.
create index task_texts_reasons on task_texts (task_id) where reason is not null;

-- A task waits for its blockers.
create table dependencies (
  task_id uuid not null references tasks on delete cascade,
  blocker_id uuid not null references tasks on delete cascade,
  primary key (task_id, blocker_id),
  constraint no_self_edge check (task_id <> blocker_id)
);

create index dependents on dependencies (blocker_id);

-- Exactly the tasks that may be claimed, once their time has come.
create table ready_tasks (
  task_id uuid primary key references tasks on delete cascade,
  feature_id uuid not null,
  pool text not null,
  kind session_kind not null,
  priority integer not null,
  not_before timestamptz not null default now()
) with (fillfactor = 90);

create index ready_queue on ready_tasks (pool, feature_id, priority, task_id);

-- What was done to a task, by whom and why.
create table task_logs (
  id bigint generated always as identity primary key,
  task_id uuid not null references tasks on delete cascade,
  at timestamptz not null default now(),
  actor text not null,
  what text not null,
  why text
);

create index task_logs_of_task on task_logs (task_id, id);
