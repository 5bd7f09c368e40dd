-- Whoever deleted a feature had all integrations read once for each of its tasks: no index knew those that are over by their task, and the
-- foreign keys look there. They go, as those of dispatches did (0034): integrations are queued in the transaction that holds their feature,
-- and whoever deletes tasks deletes them as well (store/edit.rs).

alter table integrations
  drop constraint integrations_task_id_fkey,
  drop constraint integrations_feature_id_fkey;

-- Who asks whether a task ever landed, or what it conflicted with, finds it here; the open one has an index of its own.
create index ended_integrations on integrations (task_id, ended_at) where state not in ('waiting', 'turn', 'decided');
drop index conflicts_of_task;

-- What was taken back stands beside what landed, wherever a feature's landings are listed.
create index landed_integrations on integrations (feature_id, ended_at) where state in ('merged', 'reverted');
drop index integrations_merged;
