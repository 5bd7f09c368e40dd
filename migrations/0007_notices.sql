-- What somebody outside is told (SPEC 9.3): written in the transaction that makes it true, delivered afterwards, at least once.
create type notice_event as enum ('run_ended', 'person_needed');

create table notices (
  id uuid primary key,
  event notice_event not null,
  feature_id uuid not null,
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
  error text
);

create index notices_open on notices (next_at) where closed_at is null;
