-- Sessions handed to workers, and what they leave: prompts, transcripts, failure reports.

create table dispatches (
  id uuid not null,
  task_id uuid not null,
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
  -- The number of the iteration within its run, and how hard the agent found it.
  iteration integer,
  difficulty text,
  -- When a worker had removed the dispatch's ref, or found that it wasn't there.
  pruned_at timestamptz,
  -- When a change of branches without an agent was let push: from then on a person can't take its task away, and before, it
  -- doesn't push what was taken away.
  decided_at timestamptz,
  -- What a task's work changed in all, as its worker read it from git: where it began, the beginning of the diff for whoever
  -- verifies it, and what became weaker in tests. A person may want to see the last of these long after, so it stays; the diff
  -- is kept only where a verification follows.
  change jsonb,
  -- What an agent committed elsewhere than under the files that it left (other branches, no branch, its stash) is pushed to refs
  -- beside its attempt's: people see them with the attempt, later attempts are told of them. Few attempts have any. A list of
  -- the objects that workers report.
  strays jsonb,
  -- The model that an agent really worked with, where it told one and that isn't the one which was chosen.
  model_used text,
  share_microusd bigint,
  share_tokens bigint,
  cached_tokens bigint,
  cache_write_tokens bigint,
  context_tokens bigint,
  cost_basis cost_basis,
  account text,
  key text,
  failure failure,
  -- What is the same of a failure wherever and whenever it happens, as a hash.
  failure_signature text,
  -- Attempts stand in refs of their own rather than among branches, where each showed in every list and started a CI. Those of earlier
  -- releases are branches until a worker has moved them; the default for rows that are there is told apart from that of new ones.
  in_branch boolean not null default false,
  constraint dispatches_share_microusd_check check ((share_microusd >= 0)),
  constraint dispatches_share_tokens_check check ((share_tokens >= 0)),
  constraint the_end_is_whole check (((state = 'live'::dispatch_state) = (settled_at is null))),
  primary key (id)
) with (fillfactor='40');

-- What is left to be moved, by feature.
create index dispatches_in_branches on dispatches (feature_id) where (in_branch and (pruned_at is null) and (state <> 'live'::dispatch_state));
create index dispatches_of_task on dispatches (task_id, id);
-- Who waits for a run is told of attempts that came to nothing, which are few among many.
create index failed_dispatches on dispatches (feature_id, id) where (outcome = any (array['failed'::attempt_outcome, 'no_sigil'::attempt_outcome, 'error'::attempt_outcome, 'conflict'::attempt_outcome, 'lost'::attempt_outcome, 'door'::attempt_outcome]));
create index journal_of_feature on dispatches (feature_id, settled_at, id) where (journal is not null);
create index live_dispatches on dispatches (feature_id) where (state = 'live'::dispatch_state);
create index live_keys on dispatches (key) where ((state = 'live'::dispatch_state) and (key is not null));
-- Whether a dispatch was lost alone, and so may have killed its worker, is told by what else of that worker's life was lost lately. Few are
-- lost, so this costs the others nothing.
create index lost_dispatches on dispatches (worker, settled_at) where (state = 'lost'::dispatch_state);

-- The rest of all prompts of one feature that claims asked for together, as gzipped JSON, dispatch → frame's hash and body:
-- they share most of their words.
create table prompts (
  id uuid not null,
  packed bytea not null,
  created_at timestamptz not null default now(),
  primary key (id)
);

create index prompts_by_age on prompts using brin (created_at) with (autosummarize='on');

-- What was sent to an agent. The frame (instructions, the same for all prompts of a kind) stands once, under its hash.
create table texts (
  sha256 text not null,
  body text not null,
  created_at timestamptz not null default now(),
  primary key (sha256)
);

-- Texts that were too large for one message, in parts, until somebody fetched them.
create table blob_parts (
  sha256 text not null,
  index integer not null,
  bytes bytea not null,
  created_at timestamptz not null default now(),
  prompt_of uuid,
  constraint blob_parts_index_check check ((index >= 0)),
  primary key (sha256, index)
);

create index parts_of_prompts on blob_parts (prompt_of) where (prompt_of is not null);

-- Transcripts of settled dispatches: JSON lines, bounded.
create table transcripts (
  dispatch_id uuid not null,
  body bytea not null,
  entries integer not null,
  stored_at timestamptz not null default now(),
  -- How many entries of a transcript a coordinator has seen, those included that were left out of a long one: its worker sends it again
  -- until they are as many as the session had. Null for those that were kept before.
  seen bigint,
  primary key (dispatch_id),
  foreign key (dispatch_id) references dispatches(id) on delete cascade
);

create index transcripts_by_age on transcripts using brin (stored_at) with (autosummarize='on');

-- Reports that could not be applied even alone, kept raw for a person to look at.
create table bad_reports (
  id bigint not null generated always as identity,
  dispatch_id uuid,
  received_at timestamptz not null default now(),
  error text not null,
  body bytea not null,
  primary key (id)
);

create index bad_reports_by_age on bad_reports using brin (received_at) with (autosummarize='on');

-- Failure reports: structured ones from agents, and those that were extracted (SPEC 4.3).
create table failure_reports (
  dispatch_id uuid not null,
  task_id uuid not null,
  attempt integer not null,
  extracted boolean not null,
  category text not null,
  what_tried text not null,
  why_failed text not null,
  relevant_files text,
  error_output text,
  retry_suggestion text,
  created_at timestamptz not null default now(),
  primary key (dispatch_id),
  foreign key (dispatch_id) references dispatches(id) on delete cascade
);

create index failure_reports_of_task on failure_reports (task_id, attempt);
