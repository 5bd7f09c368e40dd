-- What iterations leave for later ones, and the index over it.

create table learnings (
  id uuid not null,
  repo_id text not null,
  task_id uuid,
  dispatch_id uuid,
  category text not null,
  tags text[] not null,
  body text not null,
  -- Shown to other tasks only once the task that learned it is done (SPEC 6.8).
  released_at timestamptz,
  pruned_at timestamptz,
  superseded_by uuid,
  weight real not null default 1,
  created_at timestamptz not null default now(),
  title text not null default '',
  paths text[] not null default '{}',
  origin memory_origin not null default 'attempt',
  -- The name that an import gave it.
  external_id text,
  -- When it was last shown to an attempt that has ended since.
  last_used_at timestamptz,
  -- Since when none of its files is there any more.
  stale_since timestamptz,
  -- Why upkeep hid it; null for a person's doing.
  pruned_because text,
  -- Its number in the index, and when it got it; null while it isn't in it.
  doc_id bigint,
  indexed_at timestamptz,
  -- Packed, as those of memory_docs are.
  words bytea,
  constraint indexed_with_words check ((((doc_id is null) = (words is null)) and ((doc_id is null) = (indexed_at is null)))),
  constraint learnings_pruned_because_check check ((pruned_because = any (array['unused'::text, 'full'::text, 'stale'::text, 'revoked'::text, 'purged'::text]))),
  primary key (id),
  foreign key (superseded_by) references learnings(id) on delete set null
) ; alter table only learnings alter column words set storage external;

create unique index learnings_by_external_id on learnings (repo_id, md5(external_id)) where (external_id is not null);
create unique index learnings_doc_id_key on learnings (doc_id);
create index learnings_of_dispatch on learnings (dispatch_id) where (dispatch_id is not null);
create index learnings_of_task on learnings (task_id) where ((task_id is not null) and (released_at is null));
create index live_learnings on learnings (repo_id, id) where ((released_at is not null) and (pruned_at is null) and (superseded_by is null));
create index replaced_learnings on learnings (superseded_by) where (superseded_by is not null);
create index stale_learnings on learnings (stale_since) where ((stale_since is not null) and (pruned_at is null));

create table knowledge (
  id uuid not null,
  repo_id text not null,
  task_id uuid,
  dispatch_id uuid,
  title text not null,
  tags text[] not null,
  body text not null,
  released_at timestamptz,
  pruned_at timestamptz,
  superseded_by uuid,
  created_at timestamptz not null default now(),
  paths text[] not null default '{}',
  feature text,
  origin memory_origin not null default 'attempt',
  weight real not null default 1,
  external_id text,
  -- Of the repository's file that it is.
  file_sha256 text,
  last_used_at timestamptz,
  stale_since timestamptz,
  pruned_because text,
  -- When a person last changed what it says.
  edited_at timestamptz,
  constraint knowledge_pruned_because_check check ((pruned_because = any (array['unused'::text, 'full'::text, 'stale'::text, 'revoked'::text, 'purged'::text]))),
  primary key (id),
  foreign key (superseded_by) references knowledge(id) on delete set null
);

create unique index knowledge_by_external_id on knowledge (repo_id, md5(external_id)) where (external_id is not null);
create index knowledge_of_dispatch on knowledge (dispatch_id) where (dispatch_id is not null);
-- The entries that are files, whichever head these were found at: a feature may begin without them.
create index knowledge_of_files on knowledge (repo_id) where ((origin = 'repository'::memory_origin) and (external_id is not null));
create index knowledge_of_task on knowledge (task_id) where ((task_id is not null) and (released_at is null));
create index live_knowledge on knowledge (repo_id, md5(lower(title))) where ((released_at is not null) and (pruned_at is null) and (superseded_by is null));
-- Knowledge that is let in is compared with what shares a tag with it, not with all of its repository.
create index live_knowledge_by_tag on knowledge using gin (tags) where ((released_at is not null) and (pruned_at is null) and (superseded_by is null));
create index replaced_knowledge on knowledge (superseded_by) where (superseded_by is not null);
create index stale_knowledge on knowledge (stale_since) where ((stale_since is not null) and (pruned_at is null));

create table session_memory (
  id bigint not null generated always as identity,
  feature_id uuid not null,
  task_id uuid,
  dispatch_id uuid not null,
  kind text not null,
  body text not null,
  rationale text,
  resolved_at timestamptz,
  created_at timestamptz not null default now(),
  constraint session_memory_kind_check check ((kind = any (array['key_fact'::text, 'decision'::text, 'step_done'::text, 'step_pending'::text, 'file_modified'::text, 'error'::text]))),
  primary key (id),
  foreign key (feature_id) references features(id) on delete cascade,
  foreign key (task_id) references tasks(id) on delete set null
);

-- A failure stays in the prompts of its siblings when its own task is done, until their parent is (SPEC 6.3).
create index resolved_errors on session_memory (feature_id, id) where ((kind = 'error'::text) and (resolved_at is not null));
create index session_memory_of_feature on session_memory (feature_id, kind, id) where (resolved_at is null);
create index session_memory_of_task on session_memory (task_id, id);
-- Errors of tasks that may be done by now.
create index unresolved_errors on session_memory (task_id) where ((kind = 'error'::text) and (resolved_at is null));

create table distillations (
  id uuid not null,
  repo_id text not null,
  tag text not null,
  -- Null once its feature is deleted.
  task_id uuid,
  run_id uuid,
  -- The learnings that it was given.
  entries uuid[] not null,
  -- Learnings with the tag when it began, less those that it merged.
  left_over bigint not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  -- How many took the place of how many.
  made integer not null default 0,
  merged integer not null default 0,
  -- A person changed one of its entries before it answered.
  edited boolean not null default false,
  primary key (id),
  unique (task_id),
  foreign key (run_id) references runs(id) on delete set null,
  foreign key (task_id) references tasks(id) on delete set null
);

create index distillations_of_tag on distillations (repo_id, tag, started_at desc);

create table memory_docs (
  id bigint not null generated always as identity,
  entry uuid not null,
  created_at timestamptz not null,
  indexed_at timestamptz not null default now(),
  repo_id text not null,
  kind memory_kind not null,
  words bytea not null,
  unique (entry),
  primary key (id)
);

create index memory_docs_of_repo on memory_docs (repo_id, kind, id);

-- How far that has come. One row: a system has one model at a time, and starts anew with another.
create table memory_embedding (
  only_row boolean not null default true,
  model text not null,
  -- Numbers of each vector; null until the model answered first.
  dimensions integer,
  -- Entries up to this one have vectors, but for those that the model refused.
  upto bigint not null default 0,
  -- How many got one since this is the model, and how many it refused.
  made bigint not null default 0,
  refused bigint not null default 0,
  -- The coordinator that asks for the next ones; another may once the time is over.
  held_by uuid,
  held_until timestamptz,
  looked bigint not null default 0,
  constraint memory_embedding_only_row_check check (only_row),
  primary key (only_row)
);

-- Files that entries are about.
create table memory_paths (
  repo_id text not null,
  path text not null,
  -- Whether it was there when somebody looked; what never was may be no file at all, and makes nothing stale.
  seen boolean not null default false,
  missing_since timestamptz,
  checked_at timestamptz,
  primary key (repo_id, path)
);

create index memory_paths_to_check on memory_paths (repo_id, checked_at nulls first);

create table memory_postings (
  key bigint not null,
  block integer not null,
  entries bigint[] not null,
  -- In how many entries the key stands, those of blocks that were dropped included. It counts in a key's newest block alone.
  stands bigint not null,
  primary key (key, block)
) with (fillfactor='70');

-- Entries that stood in blocks when they left, until they are taken out of their keys' blocks and counts.
create table memory_removed (
  doc_id bigint not null,
  posting bigint not null,
  keys bigint[] not null,
  primary key (doc_id)
);

-- What an entry was made from; it is taken back with any of them.
create table memory_sources (
  entry uuid not null,
  source uuid not null,
  primary key (entry, source)
);

create index memory_sources_by_source on memory_sources (source);

-- A repository's entries of one kind.
create table memory_stats (
  repo_id text not null,
  kind memory_kind not null,
  -- Entries, and words in all their titles, bodies, paths and tags.
  entries bigint not null default 0,
  title_words bigint not null default 0,
  body_words bigint not null default 0,
  place_words bigint not null default 0,
  tag_words bigint not null default 0,
  -- The confidence below which nothing is shown, and how many entries there were when it was found.
  floor double precision,
  calibrated_at_entries bigint not null default 0,
  primary key (repo_id, kind)
);

create table memory_nearness (
  repo_id text not null,
  kind memory_kind not null,
  -- Vectors of different models can't be compared.
  model text not null,
  -- The mean of its entries' vectors.
  centre real[] not null,
  -- The cosine that is usual, how much confidence one more is worth, and the floor of both together; null where its entries show
  -- nothing.
  usual double precision,
  weight double precision,
  floor double precision,
  found_at_entries bigint not null,
  constraint found_together check ((num_nulls(usual, weight, floor) = any (array[0, 3]))),
  primary key (repo_id, kind),
  foreign key (repo_id, kind) references memory_stats(repo_id, kind) on delete cascade
);

-- Attempts whose prompts had memory of other tasks, and the few that were held out to measure what it is worth.
create table memory_trials (
  dispatch_id uuid not null,
  repo_id text not null,
  held_out boolean not null,
  outcome memory_outcome,
  at timestamptz not null default now(),
  primary key (dispatch_id),
  foreign key (dispatch_id) references dispatches(id) on delete cascade
);

create index memory_trials_open on memory_trials (dispatch_id) where (outcome is null);

-- Entries that wait to be appended. A row an entry, and no mark up to which all were: numbers are given when entries are written,
-- not when they are committed, so one below a mark may still come.
create table memory_unmerged (
  id bigint not null generated always as identity,
  docs bigint[] not null,
  primary key (id)
) with (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

create table memory_uses (
  dispatch_id uuid not null,
  kind memory_kind not null,
  entry uuid not null,
  place smallint not null,
  score real not null,
  -- Why it was left out; null when it was shown.
  left_out text,
  outcome memory_outcome,
  used_at timestamptz not null default now(),
  primary key (dispatch_id, kind, entry),
  foreign key (dispatch_id) references dispatches(id) on delete cascade
);

create index memory_uses_by_age on memory_uses using brin (used_at) with (autosummarize='on');
create index memory_uses_of_entry on memory_uses (entry, used_at) where (left_out is null);
create index memory_uses_open on memory_uses (dispatch_id) where ((outcome is null) and (left_out is null));

create table memory_vectors (
  doc_id bigint not null,
  -- The model's name, since vectors of different models can't be compared.
  model text not null,
  vector real[] not null,
  primary key (doc_id)
);
