-- Finding what was remembered (SPEC 6.5), and knowing what became of showing it (SPEC 6.7, 6.8).
--
-- Entries are indexed when they are released, not when they are learned: what stays in quarantine costs nothing. A key is a
-- word within one repository's entries of one kind, hashed; so a look-up costs the same however large the memories of others
-- are. The index's rows are narrow, the analysed words stand apart: choosing candidates reads only the former.

create type memory_kind as enum ('learning', 'knowledge', 'journal');
create type memory_origin as enum ('attempt', 'manual', 'import', 'distilled');

alter table learnings
  add column title text not null default '',
  add column paths text[] not null default '{}',
  add column origin memory_origin not null default 'attempt',
  -- The name that an import gave it.
  add column external_id text;
alter table knowledge
  add column paths text[] not null default '{}',
  add column feature text,
  add column origin memory_origin not null default 'attempt',
  add column weight real not null default 1,
  add column external_id text;

-- Tags are searched as words of the index below; knowledge of one title is one entry.
drop index learnings_by_tag;
drop index knowledge_by_tag;
create unique index learnings_by_external_id on learnings (repo_id, external_id) where external_id is not null;
create unique index knowledge_by_external_id on knowledge (repo_id, external_id) where external_id is not null;
create index live_learnings on learnings (repo_id, id)
  where released_at is not null and pruned_at is null and superseded_by is null;
create index live_knowledge on knowledge (repo_id, lower(title))
  where released_at is not null and pruned_at is null and superseded_by is null;
create index learnings_of_dispatch on learnings (dispatch_id) where dispatch_id is not null;
create index knowledge_of_dispatch on knowledge (dispatch_id) where dispatch_id is not null;

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

create table memory_docs (
  id bigint generated always as identity primary key,
  entry uuid not null unique,
  created_at timestamptz not null,
  indexed_at timestamptz not null default now(),
  keys bigint[] not null
);

-- New entries wait in a list that is short enough to be searched with every question. Merged together, a word that many of
-- them share is written once.
create index memory_docs_by_key on memory_docs using gin (keys) with (fastupdate = on, gin_pending_list_limit = 64);

create table memory_words (
  doc_id bigint primary key references memory_docs on delete cascade,
  repo_id text not null,
  kind memory_kind not null,
  title integer[] not null,
  body integer[] not null,
  place integer[] not null,
  tags integer[] not null,
  names integer[] not null,
  stems integer[] not null,
  -- Keys, as the index has them.
  files bigint[] not null,
  folders integer[] not null
);

create index memory_words_of_repo on memory_words (repo_id, kind, doc_id);

-- In how many entries a key stands. Counted behind, in the background: rarity may lag.
create table memory_keys (
  key bigint primary key,
  entries bigint not null
) with (fillfactor = 70);

-- What was shown to which attempt, what was nearly shown, and how the attempt ended.
create type memory_outcome as enum ('landed', 'failed', 'neutral');

create table memory_uses (
  dispatch_id uuid not null references dispatches on delete cascade,
  kind memory_kind not null,
  entry uuid not null,
  place smallint not null,
  score real not null,
  -- Why it was left out; null when it was shown.
  left_out text,
  outcome memory_outcome,
  used_at timestamptz not null default now(),
  primary key (dispatch_id, kind, entry)
);

create index memory_uses_open on memory_uses (dispatch_id) where outcome is null and left_out is null;
create index memory_uses_of_entry on memory_uses (entry, used_at) where left_out is null;

-- Attempts whose prompts had memory of other tasks, and the few that were held out to measure what it is worth.
create table memory_trials (
  dispatch_id uuid primary key references dispatches on delete cascade,
  repo_id text not null,
  held_out boolean not null,
  outcome memory_outcome,
  at timestamptz not null default now()
);

create index memory_trials_open on memory_trials (dispatch_id) where outcome is null;

-- The number of the iteration within its run, and how hard the agent found it.
alter table dispatches add column iteration integer, add column difficulty text;

-- A run's journal becomes searchable when the run has ended.
alter table runs add column journal_indexed_at timestamptz;
create index runs_to_index on runs (ended_at) where ended_at is not null and journal_indexed_at is null;

-- Notes are read by kind, newest first, and the current task's steps by task.
drop index session_memory_of_feature;
create index session_memory_of_feature on session_memory (feature_id, kind, id) where resolved_at is null;
create index session_memory_of_task on session_memory (task_id, id);
