-- References between files, and functions that read tables.

alter table features add foreign key (current_run) references runs(id) on delete set null;
alter table questions add foreign key (dispatch_id) references dispatches(id) on delete cascade;

create function awaited(task uuid, at_end boolean) returns table(id uuid, is_end boolean)
    language sql stable
    as $_$
  -- An end waits for its own start and for the ends of its parts; a start for the ends of its blockers and its parent's start.
  select $1, false where $2
  union all
  select t.id, true from tasks t where $2 and t.parent_id = $1
  union all
  select d.blocker_id, true from dependencies d where not $2 and d.task_id = $1
  union all
  select t.parent_id, false from tasks t where not $2 and t.id = $1 and t.parent_id is not null
$_$;

-- While it waits for its time, what passed may land: its next attempt begins on top of that.
create function held_by_collision(integration integrations) returns boolean
    language sql stable
    as $$
  select exists (
    select 1
    from tasks s
    where s.feature_id = integration.feature_id and s.conflicts >= 2 and s.id <> integration.task_id
      and s.next_kind in ('work', 'verify')
      -- While it waits for a worker, no longer than a minute: what passed must not wait for somebody who never comes.
      and (s.state = 'in_progress'
           or exists (select 1 from ready_tasks r
                      where r.task_id = s.id and r.not_before <= now() and r.not_before > now() - interval '1 minute'))
      and (select c.conflict_paths from integrations c
           where c.task_id = s.id and c.state = 'conflict' order by c.ended_at desc limit 1)
          && coalesce((select d.files_changed from dispatches d
                       where d.task_id = integration.task_id and d.commit = integration.source_commit limit 1), '{}')
  )
$$;

create function note_spending() returns trigger
    language plpgsql
    as $$
declare
  -- What was counted of it before.
  before dispatches := old;
begin
  if old.state = 'live' then
    before.cost_usd := 0; before.cost_basis := null; before.input_tokens := 0; before.output_tokens := 0;
    before.cached_tokens := 0; before.cache_write_tokens := 0;
  end if;
  insert into spending as s
  values ((now() at time zone 'utc')::date, coalesce(new.account, ''), coalesce(new.agent, 'default'),
          coalesce(new.model_used, new.model, ''), new.kind, pg_backend_pid() % 1024, (old.state = 'live')::int,
          (new.cost_basis is not distinct from 'unknown' and before.cost_basis is distinct from 'unknown')::int,
          (new.cost_basis is not distinct from 'subscription' and before.cost_basis is distinct from 'subscription')::int,
          greatest(coalesce(new.cost_usd, 0) - coalesce(before.cost_usd, 0), 0),
          case when new.cost_basis = 'estimated' then greatest(coalesce(new.cost_usd, 0) - coalesce(before.cost_usd, 0), 0) else 0 end,
          greatest(coalesce(new.input_tokens, 0) - coalesce(before.input_tokens, 0), 0),
          greatest(coalesce(new.output_tokens, 0) - coalesce(before.output_tokens, 0), 0),
          greatest(coalesce(new.cached_tokens, 0) - coalesce(before.cached_tokens, 0), 0),
          greatest(coalesce(new.cache_write_tokens, 0) - coalesce(before.cache_write_tokens, 0), 0))
  on conflict (day, account, agent, model, kind, part) do update
  set sessions = s.sessions + excluded.sessions, unpriced = s.unpriced + excluded.unpriced,
      subscribed = s.subscribed + excluded.subscribed, cost_usd = s.cost_usd + excluded.cost_usd,
      estimated_usd = s.estimated_usd + excluded.estimated_usd, input_tokens = s.input_tokens + excluded.input_tokens,
      output_tokens = s.output_tokens + excluded.output_tokens, cached_tokens = s.cached_tokens + excluded.cached_tokens,
      cache_write_tokens = s.cache_write_tokens + excluded.cache_write_tokens;
  return null;
end
$$;

-- The keys under which tasks of a feature may be claimed now, and how many of each; '' is none.
create function open_keys(feature uuid) returns table(key text, room bigint)
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
$$;

-- Whether a task is this one, or a part of it on any level.
create function task_within(task uuid, above uuid) returns boolean
    language sql stable parallel safe
    return (exists (with recursive line as (select tasks.id, tasks.parent_id from tasks where (tasks.id = task_within.task) union select t.id, t.parent_id from (tasks t join line line_1 on ((t.id = line_1.parent_id)))) select from line where (line.id = task_within.above)));

-- All that the index knows, by number: numbers of both tables come from the same sequence.
create view memory_entries as
 select memory_docs.id,
    memory_docs.entry,
    memory_docs.created_at,
    memory_docs.indexed_at,
    memory_docs.repo_id,
    memory_docs.kind,
    memory_docs.words
   from memory_docs
union all
 select learnings.doc_id as id,
    learnings.id as entry,
    learnings.created_at,
    learnings.indexed_at,
    learnings.repo_id,
    'learning'::memory_kind as kind,
    learnings.words
   from learnings
  where (learnings.doc_id is not null);

create trigger spending_of_dispatches after update on dispatches for each row when (((new.state <> 'live'::dispatch_state) and (new.kind <> all (array['integrate'::session_kind, 'git'::session_kind, 'check'::session_kind])) and ((old.state = 'live'::dispatch_state) or (new.cost_usd is distinct from old.cost_usd) or (new.cost_basis is distinct from old.cost_basis) or (new.input_tokens is distinct from old.input_tokens) or (new.output_tokens is distinct from old.output_tokens) or (new.cached_tokens is distinct from old.cached_tokens) or (new.cache_write_tokens is distinct from old.cache_write_tokens)))) execute function note_spending();
