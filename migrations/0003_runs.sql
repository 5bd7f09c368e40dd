-- Runs of features, their tasks, and the queue of ready tasks.

create table runs (
  id uuid not null,
  feature_id uuid not null,
  outcome run_outcome,
  reason text,
  -- Limits; null is "no limit" (SPEC 3.4).
  max_iterations integer,
  max_time_ms bigint,
  max_cost_usd double precision,
  max_tokens bigint,
  session_ms bigint not null,
  idle_ms bigint not null,
  output_bytes bigint not null,
  backoff_ms bigint not null,
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
  -- A run's journal becomes searchable when the run has ended.
  journal_indexed_at timestamptz,
  -- Commands that must succeed on exactly the commit that lands.
  gate text[] not null default '{}',
  -- Nobody chose the limit of iterations: it grows with the tasks that agents add.
  limit_grows boolean not null default false,
  review boolean not null default true,
  -- When the pause began that lasts.
  paused_at timestamptz,
  -- How long the pauses took that are over. Milliseconds.
  paused_ms bigint not null default 0,
  -- A person said that the gate may fail on the base.
  gate_may_fail boolean not null default false,
  estimated_usd double precision not null default 0,
  unpriced integer not null default 0,
  subscribed integer not null default 0,
  -- Paths whose change a person approves before it lands, and whether one did.
  protect text[] not null default '{}',
  -- A run may be of one task and its parts (`task run`): nothing else of the feature begins in it. What ends an attempt that was begun, and
  -- the gate's check, go on in any run, since landings take turns.
  only_task uuid,
  constraint an_end_has_an_outcome check (((ended_at is null) = (outcome is null))),
  constraint runs_backoff_ms_check check ((backoff_ms >= 0)),
  constraint runs_idle_ms_check check ((idle_ms > 0)),
  constraint runs_max_cost_usd_check check ((max_cost_usd > (0)::double precision)),
  constraint runs_max_iterations_check check ((max_iterations > 0)),
  constraint runs_max_time_ms_check check ((max_time_ms > 0)),
  constraint runs_max_tokens_check check ((max_tokens > 0)),
  constraint runs_model_strategy_check check ((model_strategy = any (array['fixed'::text, 'cost-optimized'::text, 'escalate'::text, 'plan-then-execute'::text, 'adaptive'::text]))),
  constraint runs_output_bytes_check check ((output_bytes > 0)),
  constraint runs_paused_ms_check check ((paused_ms >= 0)),
  constraint runs_session_ms_check check ((session_ms > 0)),
  primary key (id),
  foreign key (feature_id) references features(id) on delete cascade
) with (fillfactor='50');

create unique index one_open_run_per_feature on runs (feature_id) where (ended_at is null);
create index runs_of_feature on runs (feature_id, started_at desc);
create unique index runs_short on runs ("right"(replace((id)::text, '-'::text, ''::text), 12) text_pattern_ops);
create index runs_to_index on runs (ended_at) where ((ended_at is not null) and (journal_indexed_at is null));

create table tasks (
  id uuid not null,
  feature_id uuid not null,
  parent_id uuid,
  state task_state not null,
  -- What the next dispatch of this task does; null for a task with children.
  next_kind session_kind,
  verify boolean not null,
  verification verification not null default 'none',
  -- A failed, cancelled or stopped ancestor keeps the subtree from being worked on.
  held boolean not null default false,
  priority integer not null default 0,
  max_retries integer not null,
  -- Unresolved blockers of its own, plus one while its parent is closed (DESIGN 2, graph transactions).
  open_blockers integer not null default 0,
  -- Children that are not done, skipped or cancelled.
  open_children integer not null default 0,
  children integer not null default 0,
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
  -- What a task's own sessions are; verify and integrate follow a role that changes files.
  role session_kind not null default 'work',
  -- When a task that conflicted twice in a row may be claimed again: it is not in ready_tasks before its turn comes.
  not_before timestamptz,
  lost_with_others smallint not null default 0,
  too_hard smallint not null default 0,
  constraint only_leaves_are_worked_on check (((children = 0) or (next_kind is null))),
  constraint tasks_check check ((children >= open_children)),
  constraint tasks_max_retries_check check ((max_retries >= 0)),
  constraint tasks_open_blockers_check check ((open_blockers >= 0)),
  constraint tasks_open_children_check check ((open_children >= 0)),
  constraint tasks_role_check check ((role <> all (array['verify'::session_kind, 'integrate'::session_kind]))),
  constraint tasks_too_hard_check check ((too_hard >= 0)),
  primary key (id),
  foreign key (feature_id) references features(id) on delete cascade,
  foreign key (parent_id) references tasks(id) on delete cascade
) with (fillfactor='45');

-- Tasks that conflicted twice in a row run one after the other, and while one does, nothing lands that would make it
-- conflict again.
create index colliding_tasks on tasks (feature_id) where (conflicts >= 2);
create index tasks_of_feature on tasks (feature_id, id);
create index tasks_of_parent on tasks (parent_id) where (parent_id is not null);
create unique index tasks_short on tasks ("right"(replace((id)::text, '-'::text, ''::text), 12) text_pattern_ops);

create table task_texts (
  task_id uuid not null,
  key text not null,
  title text not null,
  description text not null default '',
  pool text not null default 'default',
  agent text,
  model text,
  -- Why it needs a person, or why it failed; for screens.
  reason text,
  -- What a task of the role `git` does to a branch, as JSON.
  operation jsonb,
  -- What the task is declared to change: paths from the repository's top, with `*`, `?` and `**`.
  paths text[] not null default '{}',
  -- The model that an agent asked for when it was done with a task: what the task frees gets it (SPEC 4.1).
  hinted_model text,
  concurrency text,
  constraint task_texts_pool_check check ((pool ~ '^[a-z0-9-]{1,40}$'::text)),
  constraint task_texts_title_check check ((title <> ''::text)),
  primary key (task_id)
);

create index task_texts_hints on task_texts (task_id) where (hinted_model is not null);
-- What needs a person or failed: few rows, and they are found without reading the others.
create index task_texts_reasons on task_texts (task_id) where (reason is not null);

-- A task waits for its blockers.
create table dependencies (
  task_id uuid not null,
  blocker_id uuid not null,
  constraint no_self_edge check ((task_id <> blocker_id)),
  primary key (task_id, blocker_id)
);

create index dependents on dependencies (blocker_id);

-- Exactly the tasks that may be claimed, once their time has come.
create table ready_tasks (
  task_id uuid not null,
  feature_id uuid not null,
  pool text not null,
  kind session_kind not null,
  priority integer not null,
  not_before timestamptz not null default now(),
  agent text not null,
  -- When it could have been claimed first.
  since timestamptz not null default now(),
  due double precision generated always as (queue_due(priority, since)) stored not null,
  key text not null default '',
  primary key (task_id)
) with (fillfactor='90');

-- Verifications, integrations and changes of branches; few of all entries.
create index ready_follow_ups on ready_tasks (feature_id) where (priority <= '-2147483647'::integer);
create index ready_queue on ready_tasks (feature_id, pool, agent, key, due, task_id);

create table path_holds (
  task_id uuid not null,
  feature_id uuid not null,
  -- The task that changes the same, and where.
  by_task uuid not null,
  path text not null,
  since timestamptz not null default clock_timestamp(),
  -- It may be claimed again since.
  released_at timestamptz,
  primary key (task_id),
  foreign key (by_task) references tasks(id) on delete cascade,
  foreign key (feature_id) references features(id) on delete cascade,
  foreign key (task_id) references tasks(id) on delete cascade
);

create index path_holds_by on path_holds (by_task);
create index path_holds_of_feature on path_holds (feature_id, since, task_id);

-- What was done to a task, by whom and why.
create table task_logs (
  id bigint not null generated always as identity,
  task_id uuid not null,
  at timestamptz not null default now(),
  actor text not null,
  what text not null,
  why text,
  primary key (id),
  foreign key (task_id) references tasks(id) on delete cascade
);

-- What happened since some time, over all features.
create index task_logs_at on task_logs (at);
create index task_logs_of_task on task_logs (task_id, id);

-- What agents asked of a person while nobody was there: each was told to decide and to say so. For whoever looks later.
create table questions (
  dispatch_id uuid not null,
  task_id uuid not null,
  asked text[] not null,
  constraint questions_asked_check check ((cardinality(asked) > 0)),
  primary key (dispatch_id)
);

create index questions_of_task on questions (task_id);
