-- What somebody outside is told (SPEC 9.3): written in the transaction that makes it true, delivered afterwards, at least once.
create type notice_event as enum ('run_ended', 'person_needed', 'pool_paused');

create table notices (
  id uuid primary key,
  event notice_event not null,
  -- What it is about: a feature, or a pool.
  feature_id uuid,
  pool text,
  run_id uuid,
  task_id uuid,
  outcome run_outcome,
  reason text not null,
  at timestamptz not null default now(),
  -- Deliveries that failed so far, and when the next one is due.
  tries integer not null default 0,
  next_at timestamptz not null default now(),
  -- The address has it, the command doesn't yet.
  posted boolean not null default false,
  -- Delivered, or given up with this error.
  closed_at timestamptz,
  error text,
  constraint a_notice_is_about_a_feature_or_a_pool check ((feature_id is null) = (pool is not null))
);

-- Pools whose sessions don't get past the agent's door (SPEC 7.3): a row from the first such failure until a session gets past it.
create table closed_doors (
  pool text primary key,
  failures integer not null
);

create index notices_open on notices (next_at) where closed_at is null;
