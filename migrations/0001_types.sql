-- Types of columns, and functions of their values.

create type api_role as enum ('read', 'submit', 'admin');
create type attempt_outcome as enum (
  'done', 'failed', 'no_sigil', 'error', 'conflict', 'split', 'interrupted', 'lost', 'door', 'passed', 'merged', 'void'
);
create type budget_level as enum ('session', 'task', 'feature', 'run', 'account', 'day', 'installation');
create type cost_basis as enum ('unknown', 'estimated', 'known', 'subscription');
create type dispatch_state as enum ('live', 'settled', 'lost', 'superseded');
create type failure as enum (
  'reported', 'refused', 'blocked', 'unconcluded', 'graph', 'bulk', 'turn_limit', 'empty_turn', 'first_empty_turn',
  'time_limit', 'idle_limit', 'output_limit', 'tool_limit', 'stalled', 'disk_limit', 'budget', 'agent_crash',
  'protocol', 'workspace', 'not_pushed', 'away', 'lack', 'agent_missing', 'agent_exits', 'agent_login',
  'agent_version', 'agent_silent', 'agent_unknown', 'rate_limit', 'quota', 'overload', 'outage', 'verification',
  'no_verdict', 'not_verified', 'gate', 'gate_unsure', 'gate_on_base', 'conflict', 'conflict_markers', 'landing',
  'interrupted', 'drained', 'run_limit', 'taken_away', 'out_of_contact', 'worker_died', 'workers_died'
);
create type failure_policy as enum ('continue', 'stop');
create type feature_state as enum ('draft', 'planned', 'ready', 'running', 'paused', 'done', 'failed', 'cancelled');
create type integration_state as enum (
  'waiting', 'turn', 'decided', 'merged', 'conflict', 'gate_failed', 'failed', 'withdrawn', 'reverted'
);
create type memory_kind as enum ('learning', 'knowledge', 'journal');
create type memory_origin as enum ('attempt', 'manual', 'import', 'distilled', 'repository');
create type memory_outcome as enum ('landed', 'failed', 'neutral');
create type notice_event as enum (
  'run_ended', 'person_needed', 'pool_paused', 'budget_used', 'deadline_passed', 'worker_drained'
);
create type run_outcome as enum ('complete', 'failure', 'limit_reached', 'blocked', 'no_plan', 'interrupted');
create type session_kind as enum (
  'spec', 'plan', 'build', 'work', 'verify', 'review', 'distill', 'integrate', 'git', 'check'
);
create type task_state as enum (
  'pending', 'blocked', 'in_progress', 'done', 'failed', 'cancelled', 'skipped', 'needs_review'
);
create type verification as enum ('none', 'pending', 'passed', 'failed');

-- The account that a worker's agent uses; the agent's own name where nothing else is said.
create function account_of(agents text[], accounts text[], agent text) returns text
    language sql immutable
    return coalesce((accounts)[array_position(agents, coalesce(agent, 'default'::text))], agent, 'default'::text);

create function agent_needed(kind session_kind, of_task text, of_run text) returns text
    language sql immutable parallel safe
    return case when (kind = any (array['spec'::session_kind, 'plan'::session_kind, 'build'::session_kind, 'work'::session_kind, 'verify'::session_kind, 'review'::session_kind, 'distill'::session_kind])) then coalesce(nullif(of_task, ''::text), nullif(of_run, ''::text), 'default'::text) else ''::text end;

-- What needs no agent needs no key.
create function key_needed(kind session_kind, own text, of_feature text) returns text
    language sql immutable parallel safe
    as $$
  select case when kind in ('integrate', 'git', 'check') then '' else coalesce(own, of_feature, '') end
$$;

-- An entry's number, and the minutes from 2000 to when it was learned (26 bits). The larger one is the newer entry.
create function memory_posting(id bigint, created_at timestamptz) returns bigint
    language sql stable parallel safe
    return ((id << 26) | least(greatest((((floor(extract(epoch from created_at)))::bigint - 946684800) / 60), (0)::bigint), (((1 << 26) - 1))::bigint));

-- Seconds; the least goes first. What finishes what was begun (priority -2^31 and -2^31 + 1) goes before everything.
create function queue_due(priority integer, since timestamptz) returns double precision
    language sql immutable parallel safe
    as $$
  select case when priority <= -2147483647 then priority
              else date_part('epoch', since - timestamptz '2000-01-01 00:00:00+00')
                   + 1800 * (priority / (1 + abs(priority::double precision)))
         end
$$;
