-- Merges of several features into one branch of a repository take turns, in the order in which they were asked for: the gate of each
-- runs on the branch as those before it left it. Each has a concurrency key of the branch with a limit of one, which no other work has.

create or replace function key_needed(kind session_kind, own text, of_feature text) returns text
    language sql immutable parallel safe
    as $$
  select case when kind in ('integrate', 'check') then '' when kind = 'git' then coalesce(own, '') else coalesce(own, of_feature, '') end
$$;

create index ready_merges on ready_tasks (key, since, task_id) where (kind = 'git');

-- The keys under which tasks of a feature may be claimed now, and how many of each; '' is none.
create or replace function open_keys(feature uuid) returns table(key text, room bigint)
    language sql stable parallel safe
    as $$
  select '', 2147483647::bigint
  union all
  select k.name, room.n
  from features f
  cross join lateral unnest(f.keys) as of(name)
  join concurrency_keys k on k.name = of.name
  cross join lateral (
    select k.most - count(*) as n from dispatches d where d.key = k.name and d.state = 'live'
  ) room
  where f.id = feature and room.n > 0
    -- Of merges the one goes first that waits for longest; one whose pool is another one's may have no worker.
    and not exists (
      select
      from ready_tasks own
      join ready_tasks q on q.key = own.key and q.kind = 'git' and q.pool = own.pool and q.not_before <= now()
                            and (q.since, q.task_id) < (own.since, own.task_id)
      where own.key = k.name and own.kind = 'git' and own.feature_id = feature and q.feature_id <> feature
    )
$$;
