-- Limits of cost and tokens hold while sessions run. A live dispatch's figures are what its worker told so far; they are added to
-- its run when it isn't live any more, so a run has used its own figures and those of its live dispatches. Each of these may use a
-- share of the run's limits; what is left of a share is kept from the others for as long as its dispatch is live, and needs no
-- giving back. No index covers any of it, so that heartbeats' updates stay heap-only.

alter table dispatches
  add column share_microusd bigint check (share_microusd >= 0),
  add column share_tokens bigint check (share_tokens >= 0),
  add column cached_tokens bigint,
  add column cache_write_tokens bigint,
  add column context_tokens bigint;
