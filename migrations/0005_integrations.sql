-- The way of attempts onto branches: turns, decisions, gates, scans of repositories.

create table integrations (
  id uuid not null,
  feature_id uuid not null,
  task_id uuid not null,
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
  queued_at timestamptz not null default now(),
  decided_at timestamptz,
  ended_at timestamptz,
  conflict_paths text[] not null default '{}',
  -- Last twelve digits of the ids of the tasks that landed changes of these paths.
  collided text[] not null default '{}',
  away_tries integer not null default 0,
  -- What a gate said that refused an attempt, without what differs from run to run; null where it names what the task changed.
  gate_signature text,
  approved boolean not null default false,
  constraint decided_is_whole check (((state <> 'decided'::integration_state) or ((old is not null) and (new is not null) and (new_ref is not null)))),
  constraint merged_names_its_commit check (((state <> 'merged'::integration_state) or (landed_commit is not null))),
  primary key (id)
);

-- Who asks whether a task ever landed, or what it conflicted with, finds it here; the open one has an index of its own.
create index ended_integrations on integrations (task_id, ended_at) where (state <> all (array['waiting'::integration_state, 'turn'::integration_state, 'decided'::integration_state]));
create index integrations_waiting on integrations (feature_id, queued_at, id) where (state = 'waiting'::integration_state);
-- What was taken back stands beside what landed, wherever a feature's landings are listed.
create index landed_integrations on integrations (feature_id, ended_at) where (state = any (array['merged'::integration_state, 'reverted'::integration_state]));
create unique index one_landing_per_task on integrations (task_id) where (state = 'merged'::integration_state);
create unique index one_open_integration_per_task on integrations (task_id) where (state = any (array['waiting'::integration_state, 'turn'::integration_state, 'decided'::integration_state]));
create unique index one_turn_per_feature on integrations (feature_id) where (state = any (array['turn'::integration_state, 'decided'::integration_state]));

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
  constraint gate_checks_check check ((passed = (command is null))),
  primary key (repo_id, base_commit, gate_hash)
);

-- What the heads that a feature's sessions started from are known to hold.
create table surveys (
  feature_id uuid not null,
  repo_id text not null,
  head text not null,
  -- The tree of its knowledge folder; null when it has none.
  knowledge_tree text,
  -- The folder's files: name → hash of the text.
  files jsonb not null default '{}',
  at timestamptz not null default now(),
  primary key (feature_id),
  foreign key (feature_id) references features(id) on delete cascade
);

create index surveys_of_repo on surveys (repo_id, at desc);
