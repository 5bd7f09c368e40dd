-- Why a dispatch came to nothing is one of a closed set of reasons. What follows from each of them, whether it counts, when the task
-- is tried again and who is told, is one table of the program (docs/failures.md). A quota that is used up is no rate limit: it
-- lasts until it is renewed. A stronger model mends some failures, so those are counted beside the others.

create type failure as enum (
  'reported', 'refused', 'blocked', 'unconcluded', 'graph', 'turn_limit', 'empty_turn', 'first_empty_turn', 'time_limit', 'idle_limit',
  'output_limit', 'tool_limit', 'stalled', 'disk_limit', 'budget', 'agent_crash', 'protocol', 'workspace', 'not_pushed', 'away',
  'lack', 'agent_missing', 'agent_exits', 'agent_login', 'agent_version', 'agent_silent', 'agent_unknown', 'rate_limit', 'quota',
  'overload', 'outage', 'verification', 'no_verdict', 'not_verified', 'gate', 'gate_unsure', 'gate_on_base', 'conflict',
  'conflict_markers', 'landing', 'interrupted', 'drained', 'run_limit', 'taken_away', 'out_of_contact', 'worker_died',
  'workers_died'
);

alter table dispatches
  add column failure failure,
  -- What is the same of a failure wherever and whenever it happens, as a hash.
  add column failure_signature text;

alter table tasks add column too_hard smallint not null default 0 check (too_hard >= 0);
update tasks set too_hard = failures where failures > 0;

alter table account_doors drop constraint account_doors_door_check;
alter table account_doors
  add check (door in ('rate_limit', 'quota', 'overload', 'empty')),
  -- So many sessions may use an account at a time whose provider answers again; 1 until it does.
  add column width int not null default 1 check (width >= 1),
  add column widened_at timestamptz;

-- The account that a worker's agent uses; the agent's own name where nothing else is said.
create function account_of(agents text[], accounts text[], agent text) returns text language sql immutable
return coalesce(accounts[array_position(agents, coalesce(agent, 'default'))], agent, 'default');
