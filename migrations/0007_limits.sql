-- Limits of cost and tokens, and what was spent.

create table budgets (
  level budget_level not null,
  -- An account's name, or an id; empty for all of the level.
  key text not null default '',
  max_cost_usd double precision,
  max_tokens bigint,
  set_at timestamptz not null default now(),
  constraint budgets_level_check check ((level <> 'run'::budget_level)),
  constraint budgets_max_cost_usd_check check ((max_cost_usd >= (0)::double precision)),
  constraint budgets_max_tokens_check check ((max_tokens >= 0)),
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

create table spending (
  day date not null,
  account text not null,
  agent text not null,
  model text not null,
  kind session_kind not null,
  part integer not null,
  sessions bigint not null,
  -- Sessions whose cost nobody knows, and those that cost nothing by use.
  unpriced bigint not null,
  subscribed bigint not null,
  cost_usd double precision not null,
  -- How much of it is estimated.
  estimated_usd double precision not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cached_tokens bigint not null,
  cache_write_tokens bigint not null,
  primary key (day, account, agent, model, kind, part)
) with (fillfactor='50');
