-- Attempt refs go from the remote when their retention ends, or when a person asks for it. The coordinator has no git: a
-- worker asks what may go, and says what went.

-- When a worker had removed the dispatch's ref, or found that it wasn't there.
alter table dispatches add column pruned_at timestamptz;

alter table features
  -- Refs of attempts that ended before this are to go; null is "none".
  add column prune_before timestamptz,
  -- A worker was asked to; another one is when it didn't answer for a while.
  add column prune_tried_at timestamptz,
  -- Why the last try came to nothing.
  add column prune_error text;

create index features_to_prune on features (prune_before) where prune_before is not null;
