-- What a worker's agents are taken for where nobody names one (SPEC 8): by kind of session, pool and tier, as its machine is
-- configured. A queued task that names no agent still needs `default`; which of them that is depends on who claims it.

alter table workers
  -- [{agent, kinds, pools, tiers}], as hello told them.
  add column rules jsonb not null default '[]';
