-- Features: the units that people submit, with what begins them by itself.

create table features (
  id uuid not null,
  name text not null,
  -- Normalised identity of the repository: memory and names are scoped to it. Empty for features without one.
  repo_id text not null default '',
  -- Address or path that workers hand to git; null for features without code.
  repo_address text,
  base_ref text,
  base_commit text,
  branch text,
  state feature_state not null,
  max_parallel integer not null,
  failure_policy failure_policy not null default 'continue',
  -- How many tasks are in each state; kept by every transition, checked by a recount. What is in progress counts as
  -- pending: claims move tasks between the two without the feature's lock.
  pending integer not null default 0,
  blocked integer not null default 0,
  done integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  skipped integer not null default 0,
  needs_review integer not null default 0,
  current_run uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  -- Steps whose result a person approves.
  approve session_kind[] not null default '{}',
  -- How often the whole feature is reviewed at most; 0 is never.
  review_rounds integer not null default 0,
  -- How the finished feature comes into the branch that it began from; null is "it is left where it is".
  merge text,
  -- Refs of attempts that ended before this are to go; null is "none".
  prune_before timestamptz,
  -- A worker was asked to; another one is when it didn't answer for a while.
  prune_tried_at timestamptz,
  -- Why the last try came to nothing.
  prune_error text,
  avoid_conflicts boolean not null default false,
  dir text,
  first_run jsonb,
  task_defaults jsonb,
  landed_commit text,
  landed_task uuid,
  landed_at timestamptz,
  -- The task that tries the gate: while it is not over, nothing of the feature lands.
  check_task uuid,
  -- Its part of the slots beside that of others.
  weight integer not null default 1,
  -- Nothing of it begins before.
  not_before timestamptz,
  -- When it should be finished.
  deadline timestamptz,
  stop_at_deadline boolean not null default false,
  -- For which deadline people were told that it has passed.
  deadline_told timestamptz,
  -- Of tasks that name none.
  concurrency text,
  -- All keys that its tasks have.
  keys text[] not null default '{}',
  -- When a worker was last asked to move a feature's attempts; null when it may be at once.
  move_tried_at timestamptz,
  constraint a_folder_has_one_session check (((dir is null) or (max_parallel = 1))),
  constraint a_folder_is_no_repository check (((dir is null) or (repo_address is null))),
  constraint a_repository_has_a_base check (((repo_address is null) or ((base_ref is not null) and (base_commit is not null) and (branch is not null)))),
  constraint features_base_commit_check check ((base_commit ~ '^[0-9a-f]{40,64}$'::text)),
  constraint features_blocked_check check ((blocked >= 0)),
  constraint features_cancelled_check check ((cancelled >= 0)),
  constraint features_dir_check check ((dir ~~ '/%'::text)),
  constraint features_done_check check ((done >= 0)),
  constraint features_failed_check check ((failed >= 0)),
  constraint features_max_parallel_check check ((max_parallel > 0)),
  constraint features_merge_check check ((merge = any (array['ff'::text, 'merge'::text, 'squash'::text, 'command'::text]))),
  constraint features_name_check check ((name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'::text)),
  constraint features_needs_review_check check ((needs_review >= 0)),
  constraint features_pending_check check ((pending >= 0)),
  constraint features_review_rounds_check check ((review_rounds >= 0)),
  constraint features_skipped_check check ((skipped >= 0)),
  constraint features_weight_check check (((weight >= 1) and (weight <= 1000))),
  primary key (id),
  unique (repo_id, name)
) with (fillfactor='50');

create index feature_deadlines on features (deadline) where ((state = 'running'::feature_state) and (deadline is not null));
create index features_in_need on features (id) where (needs_review > 0);
create index features_of_branch on features (repo_id, branch) where (branch is not null);
-- Features that don't run and aren't over wait for a person, and are looked for each second.
create index features_ready on features (id) where (state = 'ready'::feature_state);
create index features_running on features (id) where (state = 'running'::feature_state);
create unique index features_short on features ("right"(replace((id)::text, '-'::text, ''::text), 12) text_pattern_ops);
create index features_to_prune on features (prune_before) where (prune_before is not null);

-- Long texts of a feature, apart from its counters.
create table feature_texts (
  feature_id uuid not null,
  description text not null default '',
  spec text,
  plan text,
  -- A graph that waits for its approval.
  proposed_graph text,
  primary key (feature_id),
  foreign key (feature_id) references features(id) on delete cascade
);

-- What begins a feature without a person: times, and requests from outside. Each firing changes its row and makes the run or the copy in
-- one transaction, so it does so once, whoever looks and dies.
create table schedules (
  id uuid not null,
  feature_id uuid not null,
  -- Makes a copy of the feature each time; without it, the feature's run begins once.
  cron text,
  -- Whose wall clock `cron` means. A name of the IANA database.
  zone text not null,
  -- Whether one firing makes up for those that nobody was there for, or none does.
  missed text not null,
  -- When it fires next; never again without.
  next_at timestamptz,
  paused boolean not null default false,
  created_at timestamptz not null default now(),
  fired_at timestamptz,
  -- What it made last, and why it made nothing the last time.
  made_id uuid,
  problem text,
  constraint schedules_missed_check check ((missed = any (array['skip'::text, 'once'::text]))),
  primary key (id),
  foreign key (feature_id) references features(id) on delete cascade
);

create unique index one_schedule_per_feature on schedules (feature_id);
create index schedules_due on schedules (next_at) where (not paused);

create table hooks (
  name text not null,
  -- What is copied.
  feature_id uuid not null,
  -- Key of signatures, and bearer token. It has to be known to check a signature.
  secret text not null,
  created_at timestamptz not null default now(),
  fired_at timestamptz,
  made_id uuid,
  problem text,
  primary key (name),
  foreign key (feature_id) references features(id) on delete cascade
);

create index hooks_of_feature on hooks (feature_id);

-- What hooks were sent already.
create table hook_deliveries (
  hook text not null,
  delivery text not null,
  at timestamptz not null default now(),
  made_id uuid,
  primary key (hook, delivery),
  foreign key (hook) references hooks(name) on delete cascade
);

create index hook_deliveries_by_age on hook_deliveries (at);

-- Concurrency keys: of all sessions of the installation that have one key, no more are live than its limit. Claims come one after the
-- other, so it is enough to count there. A key is part of a task's place in the queue: what waits for a key is not looked at.
create table concurrency_keys (
  name text not null,
  -- As it was said last.
  most integer not null,
  constraint concurrency_keys_most_check check ((most >= 1)),
  primary key (name)
);
