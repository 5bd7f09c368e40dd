-- What sessions cost whose agents don't tell: computed from their tokens by the price of their model, or estimated from texts. A
-- figure that is surer takes the place of one that is less sure, so the order of the words matters. Who has no price is unknown,
-- which is no cost of nothing; a subscription costs nothing by use. Runs count with their costs how much of them is estimated,
-- and sessions whose cost isn't in them. The account is the one that the agent used by the worker's word when it claimed.

create type cost_basis as enum ('unknown', 'estimated', 'known', 'subscription');

alter table dispatches
  add column cost_basis cost_basis,
  add column account text;

alter table runs
  add column estimated_usd double precision not null default 0,
  add column unpriced integer not null default 0,
  add column subscribed integer not null default 0;
