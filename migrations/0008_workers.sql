-- Workers, and the availability of their agents and accounts.

create table workers (
  name text not null,
  incarnation uuid not null,
  data_id text not null,
  pools text[] not null,
  agents text[] not null,
  slots integer not null,
  free_slots integer not null,
  draining boolean not null default false,
  drain_requested boolean not null default false,
  version text not null,
  host text not null,
  pid integer not null,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  -- The account of each of its agents, in the order of agents.
  accounts text[] not null default '{}',
  -- Its agents that fail at the door, as of its last heartbeat: agent, door, reason, failures, until.
  doors jsonb not null default '[]',
  -- [{agent, kinds, pools, tiers}], as hello told them.
  rules jsonb not null default '[]',
  drain_reason text,
  constraint workers_name_check check ((name ~ '^[a-z0-9-]{1,40}$'::text)),
  constraint workers_slots_check check ((slots > 0)),
  primary key (name)
) with (fillfactor='50');

-- A worker's name goes to another data folder when its holder isn't heard any more. What the earlier folder was given stays its own: only
-- lives of the same folder may renew it, report on it and tell what its sessions show. So each life is noted with its folder; of lives
-- before this one nothing is known, and they keep the rights of their name.
create table worker_lives (
  incarnation uuid not null,
  data_id text not null,
  began_at timestamptz not null default now(),
  primary key (incarnation)
);

-- Accounts whose provider limits the rate or is overloaded: a row from the first such failure until a session that was
-- claimed after the last one got past it.
create table account_doors (
  account text not null,
  door text not null,
  reason text not null,
  -- The worker that met it last.
  worker text not null,
  failures integer not null,
  closed_at timestamptz not null,
  -- Nothing that uses it is claimed before.
  until timestamptz not null,
  probe uuid,
  probed_at timestamptz,
  -- So many sessions may use an account at a time whose provider answers again; 1 until it does.
  width integer not null default 1,
  widened_at timestamptz,
  constraint account_doors_door_check check ((door = any (array['rate_limit'::text, 'quota'::text, 'overload'::text, 'empty'::text]))),
  constraint account_doors_failures_check check ((failures > 0)),
  constraint account_doors_width_check check ((width >= 1)),
  constraint probe_has_time check (((probe is null) = (probed_at is null))),
  primary key (account)
);

-- Pools whose sessions don't get past the agent's door (SPEC 7.3): a row from the first such failure until a session gets past it.
create table closed_doors (
  pool text not null,
  failures integer not null,
  agent text not null default '',
  primary key (pool, agent)
);

-- Tasks whose sessions were empty since the account of their agent last answered. Few, and gone with the next answer.
create table empty_turns (
  account text not null,
  task_id uuid not null,
  at timestamptz not null default now(),
  primary key (account, task_id)
);
