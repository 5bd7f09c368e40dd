-- What is handed to workers, and how it ended.
--
-- A dispatch is inserted by a claim and updated once, when its report is settled: that row then is the iteration's
-- outcome and its journal entry. Its id is made by the worker's slot and is the fence. Only leases change in between,
-- and no index covers them.

create type dispatch_state as enum ('live', 'settled', 'lost', 'superseded');
create type attempt_outcome as enum
  ('done', 'failed', 'no_sigil', 'error', 'conflict', 'split', 'interrupted', 'lost', 'door', 'passed', 'merged', 'void');

create table workers (
  name text primary key check (name ~ '^[a-z0-9-]{1,40}$'),
  incarnation uuid not null,
  data_id text not null,
  pools text[] not null,
  agents text[] not null,
  slots integer not null check (slots > 0),
  free_slots integer not null,
  draining boolean not null default false,
  drain_requested boolean not null default false,
  version text not null,
  host text not null,
  pid integer not null,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
) with (fillfactor = 50);

create table dispatches (
  id uuid primary key,
  task_id uuid not null references tasks on delete cascade,
  feature_id uuid not null,
  run_id uuid not null,
  kind session_kind not null,
  attempt integer not null,
  state dispatch_state not null default 'live',
  worker text not null,
  incarnation uuid not null,
  lease_until timestamptz not null,
  claimed_at timestamptz not null default now(),
  -- A person or a limit asked for its end.
  end_reason text,
  feedback text,
  model text,
  model_reason text,
  -- The row of prompts that its own is in.
  prompts_id uuid,
  -- Filled when it is settled.
  settled_at timestamptz,
  outcome attempt_outcome,
  reason text,
  journal text,
  start_commit text,
  commit text,
  pushed_ref text,
  files_changed text[],
  stop_reason text,
  agent text,
  duration_ms bigint,
  input_tokens bigint,
  output_tokens bigint,
  cost_usd double precision,
  tool_calls integer,
  malformed_sigils integer,
  constraint the_end_is_whole check ((state = 'live') = (settled_at is null))
) with (fillfactor = 40);

create index live_dispatches on dispatches (feature_id) where state = 'live';
create index dispatches_of_task on dispatches (task_id, id);
create index journal_of_feature on dispatches (feature_id, settled_at, id) where journal is not null;

-- What was sent to an agent. The frame (instructions, the same for all prompts of a kind) stands once, under its hash.
create table texts (
  sha256 text primary key,
  body text not null,
  created_at timestamptz not null default now()
);

-- The rest of all prompts of one feature that claims asked for together, as gzipped JSON, dispatch → frame's hash and body:
-- they share most of their words.
create table prompts (
  id uuid primary key,
  packed bytea not null,
  created_at timestamptz not null default now()
);

-- Texts that were too large for one message, in parts, until somebody fetched them.
create table blob_parts (
  sha256 text not null,
  index integer not null check (index >= 0),
  bytes bytea not null,
  created_at timestamptz not null default now(),
  primary key (sha256, index)
);

-- Reports that could not be applied even alone, kept raw for a person to look at.
create table bad_reports (
  id bigint generated always as identity primary key,
  dispatch_id uuid,
  received_at timestamptz not null default now(),
  error text not null,
  body bytea not null
);

-- Transcripts of settled dispatches: JSON lines, bounded.
create table transcripts (
  dispatch_id uuid primary key references dispatches on delete cascade,
  body bytea not null,
  entries integer not null,
  stored_at timestamptz not null default now()
);

-- Failure reports: structured ones from agents, and those that were extracted (SPEC 4.3).
create table failure_reports (
  dispatch_id uuid primary key references dispatches on delete cascade,
  task_id uuid not null,
  attempt integer not null,
  extracted boolean not null,
  category text not null,
  what_tried text not null,
  why_failed text not null,
  relevant_files text,
  error_output text,
  retry_suggestion text,
  created_at timestamptz not null default now()
);

create index failure_reports_of_task on failure_reports (task_id, attempt);
