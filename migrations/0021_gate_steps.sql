-- A run may begin without kept build output, and the commands of its gate may have names, time-outs and others beside them. What a worker
-- keeps of build output, and how long each command of a gate took, is told by workers.

alter table runs
  add column cold boolean not null default false,
  -- How the commands of the gate run, by their places there; those that are missing have no name, the worker's time-out, and run alone.
  add column gate_steps jsonb not null default '[]';

alter table workers add column warm_bytes bigint;

-- Of an integration, a check or another change of branches: each command of the gate that ran, in their order.
alter table dispatches add column gate_times jsonb;
