-- Trains: attempts that wait to land are checked ahead of their turn. A check is a dispatch of the task, of the kind
-- `check`; what it came to stands with the integration. The task's next kind stays `integrate` all the while.

create type check_result as enum ('passed', 'failed', 'conflict', 'lost');

alter table runs
  add column landing text not null default 'each' check (landing in ('each', 'batch', 'serial')),
  add column max_speculation integer not null default 8 check (max_speculation >= 0),
  add column gate_retries integer not null default 0 check (gate_retries between 0 and 10);

alter table integrations
  -- The integrations that were to land before it when it was checked last, and the newest landing then.
  add column ahead uuid[],
  add column ahead_since uuid,
  add column check_result check_result,
  -- What failed there: the tree, the command and the end of its output.
  add column checked_tree text,
  add column check_command text,
  add column check_output text,
  add column checked_at timestamptz,
  -- How many checks it had, and how many of them were for nothing.
  add column checks integer not null default 0,
  add column checks_wasted integer not null default 0,
  -- In a train with batches: it may have its turn.
  add column cleared boolean not null default false;

-- A gate passed on a tree, too: then `base_commit` names the tree, and `tip` the tree behind it that the gate ran on.
alter table gate_checks
  add column tip text,
  -- Runs of the gate there, both ways.
  add column passes integer not null default 0,
  add column failures integer not null default 0;

create index gate_passes on gate_checks (repo_id, gate_hash, checked_at desc) where passed;
create index ready_speculation on ready_tasks (feature_id) where (kind = 'check' and priority = 2147483647);
-- How many checks a feature's integrations had.
create index integrations_of_feature on integrations (feature_id);
-- The newest landings of all features, for the metrics.
create index newest_landings on integrations (ended_at desc) where state = any (array['merged'::integration_state, 'reverted'::integration_state]);
