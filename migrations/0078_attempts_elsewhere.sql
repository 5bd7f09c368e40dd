-- Attempts stand in refs of their own rather than among branches, where each showed in every list and started a CI. Those of earlier
-- releases are branches until a worker has moved them; the default for rows that are there is told apart from that of new ones.
alter table dispatches add column in_branch boolean not null default true;
alter table dispatches alter column in_branch set default false;

-- What is left to be moved, by feature.
create index dispatches_in_branches on dispatches (feature_id) where in_branch and pruned_at is null and state <> 'live';

-- When a worker was last asked to move a feature's attempts; null when it may be at once.
alter table features add column move_tried_at timestamptz;
