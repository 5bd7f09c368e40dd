-- What keeps the memory small and true over many runs (SPEC 6.7): entries that nobody used for long are hidden, those about
-- files that are gone wait for these to come back, and learnings that say nearly the same are merged by a session.

-- What a repository's own files say (SPEC 6.5).
alter type memory_origin add value 'repository';

alter table learnings
  -- When it was last shown to an attempt that has ended since.
  add column last_used_at timestamptz,
  -- Since when none of its files is there any more.
  add column stale_since timestamptz,
  -- Why upkeep hid it; null for a person's doing.
  add column pruned_because text check (pruned_because in ('unused', 'full', 'stale'));
alter table knowledge
  -- Of the repository's file that it is.
  add column file_sha256 text,
  add column last_used_at timestamptz,
  add column stale_since timestamptz,
  add column pruned_because text check (pruned_because in ('unused', 'full', 'stale'));

create index stale_learnings on learnings (stale_since) where stale_since is not null and pruned_at is null;
create index stale_knowledge on knowledge (stale_since) where stale_since is not null and pruned_at is null;

-- A session that merges learnings is a task of a feature of its own.
alter table tasks drop constraint tasks_role_check;
alter table tasks add constraint tasks_role_check
  check (role in ('spec', 'plan', 'build', 'work', 'review', 'distill', 'git'));

create table distillations (
  id uuid primary key,
  repo_id text not null,
  tag text not null,
  -- Null once its feature is deleted.
  task_id uuid unique references tasks on delete set null,
  run_id uuid references runs on delete set null,
  -- The learnings that it was given.
  entries uuid[] not null,
  -- Learnings with the tag when it began, less those that it merged.
  left_over bigint not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  -- How many took the place of how many.
  made integer not null default 0,
  merged integer not null default 0
);

create index distillations_of_tag on distillations (repo_id, tag, started_at desc);

-- What an entry was made from; it is taken back with any of them.
create table memory_sources (
  entry uuid not null,
  source uuid not null,
  primary key (entry, source)
);

create index memory_sources_by_source on memory_sources (source);

-- What the heads that a feature's sessions started from are known to hold.
create table surveys (
  feature_id uuid primary key references features on delete cascade,
  repo_id text not null,
  head text not null,
  -- The tree of its knowledge folder; null when it has none.
  knowledge_tree text,
  -- The folder's files: name → hash of the text.
  files jsonb not null default '{}',
  at timestamptz not null default now()
);

create index surveys_of_repo on surveys (repo_id);

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
