-- What iterations left for later ones (SPEC 6), and who may talk to the API (DESIGN 7).

create table learnings (
  id uuid primary key,
  repo_id text not null,
  task_id uuid references tasks on delete set null,
  dispatch_id uuid,
  category text not null,
  tags text[] not null,
  body text not null,
  -- Shown to other tasks only once the task that learned it is done (SPEC 6.8).
  released_at timestamptz,
  pruned_at timestamptz,
  superseded_by uuid references learnings on delete set null,
  weight real not null default 1,
  created_at timestamptz not null default now()
);

create index learnings_of_task on learnings (task_id) where task_id is not null and released_at is null;
create index learnings_by_tag on learnings using gin (tags);

create table knowledge (
  id uuid primary key,
  repo_id text not null,
  task_id uuid references tasks on delete set null,
  dispatch_id uuid,
  title text not null,
  tags text[] not null,
  body text not null,
  released_at timestamptz,
  pruned_at timestamptz,
  superseded_by uuid references knowledge on delete set null,
  created_at timestamptz not null default now()
);

create index knowledge_of_task on knowledge (task_id) where task_id is not null and released_at is null;
create index knowledge_by_tag on knowledge using gin (tags);

create table session_memory (
  id bigint generated always as identity primary key,
  feature_id uuid not null references features on delete cascade,
  task_id uuid references tasks on delete set null,
  dispatch_id uuid not null,
  kind text not null check (kind in ('key_fact', 'decision', 'step_done', 'step_pending', 'file_modified', 'error')),
  body text not null,
  rationale text,
  resolved_at timestamptz,
  created_at timestamptz not null default now()
);

create index session_memory_of_feature on session_memory (feature_id, id);

create type api_role as enum ('read', 'submit', 'admin');

create table api_tokens (
  id uuid primary key,
  name text not null unique,
  sha256 text not null unique,
  role api_role not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  -- From then on it is refused, with words of its own: whoever holds it learns that it was right.
  expires_at timestamptz,
  revoked_at timestamptz
);

-- Facts about the system as a whole: when the database was last known to renew leases, say.
create table system_state (
  key text primary key,
  at timestamptz not null,
  value text
);
