-- Concurrency keys: of all sessions of the installation that have one key, no more are live than its limit. Claims come one after the
-- other, so it is enough to count there. A key is part of a task's place in the queue: what waits for a key is not looked at.
create table concurrency_keys (
  name text primary key,
  -- As it was said last.
  most integer not null check (most >= 1)
);

alter table features
  -- Of tasks that name none.
  add column concurrency text,
  -- All keys that its tasks have.
  add column keys text[] not null default '{}';
alter table task_texts add column concurrency text;
alter table ready_tasks add column key text not null default '';
alter table dispatches add column key text;

create index live_keys on dispatches (key) where state = 'live' and key is not null;

drop index ready_queue;
create index ready_queue on ready_tasks (feature_id, pool, agent, key, due, task_id);

-- What needs no agent needs no key.
create function key_needed(kind session_kind, own text, of_feature text) returns text
language sql immutable parallel safe as $$
  select case when kind in ('integrate', 'git', 'check') then '' else coalesce(own, of_feature, '') end
$$;

-- The keys under which tasks of a feature may be claimed now, and how many of each; '' is none.
create function open_keys(feature uuid) returns table (key text, room bigint)
language sql stable parallel safe as $$
  select '', 2147483647::bigint
  union all
  select k.name, room.n
  from features f
  cross join lateral unnest(f.keys) as of(name)
  join concurrency_keys k on k.name = of.name
  cross join lateral (
    select k.most - count(*) as n from dispatches d where d.key = k.name and d.state = 'live'
  ) room
  where f.id = feature and room.n > 0
$$;

-- What begins a feature without a person: times, and requests from outside. Each firing changes its row and makes the run or the copy in
-- one transaction, so it does so once, whoever looks and dies.
create table schedules (
  id uuid primary key,
  feature_id uuid not null references features on delete cascade,
  -- Makes a copy of the feature each time; without it, the feature's run begins once.
  cron text,
  -- Whose wall clock `cron` means. A name of the IANA database.
  zone text not null,
  -- Whether one firing makes up for those that nobody was there for, or none does.
  missed text not null check (missed in ('skip', 'once')),
  -- When it fires next; never again without.
  next_at timestamptz,
  paused boolean not null default false,
  created_at timestamptz not null default now(),
  fired_at timestamptz,
  -- What it made last, and why it made nothing the last time.
  made_id uuid,
  problem text
);

create index schedules_due on schedules (next_at) where not paused;
create unique index one_schedule_per_feature on schedules (feature_id);

create table hooks (
  name text primary key,
  -- What is copied.
  feature_id uuid not null references features on delete cascade,
  -- Key of signatures, and bearer token. It has to be known to check a signature.
  secret text not null,
  created_at timestamptz not null default now(),
  fired_at timestamptz,
  made_id uuid,
  problem text
);

create index hooks_of_feature on hooks (feature_id);

-- What hooks were sent already.
create table hook_deliveries (
  hook text not null references hooks on delete cascade,
  delivery text not null,
  at timestamptz not null default now(),
  made_id uuid,
  primary key (hook, delivery)
);

create index hook_deliveries_by_age on hook_deliveries (at);
