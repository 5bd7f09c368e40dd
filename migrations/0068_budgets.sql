-- Limits of cost and tokens at each level beside the run: of every session, task and feature, or of one of them, of an account, a day
-- and the installation. Where the configuration has one as well, the lesser holds. A level that lets nothing begin is a row of
-- `budget_holds` for as long as that is so; what of a limit was told to people is one of `budget_notices`, once for each limit, or
-- for each day.

create type budget_level as enum ('session', 'task', 'feature', 'run', 'account', 'day', 'installation');

create table budgets (
  level budget_level not null check (level <> 'run'),
  -- An account's name, or an id; empty for all of the level.
  key text not null default '',
  max_cost_usd double precision check (max_cost_usd >= 0),
  max_tokens bigint check (max_tokens >= 0),
  set_at timestamptz not null default now(),
  primary key (level, key)
);

create table budget_holds (
  level budget_level not null,
  key text not null,
  reason text not null,
  since timestamptz not null default now(),
  primary key (level, key)
);

create table budget_notices (
  level budget_level not null,
  key text not null,
  unit text not null,
  -- The limit, since another one is told of anew, and the day where it is a day's.
  most double precision not null,
  day date not null,
  percent integer not null,
  primary key (level, key, unit, most, day, percent)
);

alter type notice_event add value 'budget_used';
alter table notices drop constraint a_notice_is_about_a_feature_or_a_pool;
alter table notices add constraint a_notice_is_about_something
  check (feature_id is null or pool is null);
