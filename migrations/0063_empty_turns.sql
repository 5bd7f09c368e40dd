-- An agent whose provider is away may end its turns in order, but empty: without a word, a tool call, a change or usage. One such
-- turn may be its task's; those of several tasks in a row, no good one between, are the account's outage, and no task pays for it.

alter table account_doors drop constraint account_doors_door_check;
alter table account_doors add check (door in ('rate_limit', 'overload', 'empty'));

-- Tasks whose sessions were empty since the account of their agent last answered. Few, and gone with the next answer.
create table empty_turns (
  account text not null,
  task_id uuid not null,
  at timestamptz not null default now(),
  primary key (account, task_id)
);

-- People are told of each agent of a pool by itself: one that works must neither hide one that doesn't, nor have it told again.
alter table closed_doors
  drop constraint closed_doors_pkey,
  add column agent text not null default '',
  add primary key (pool, agent);
