-- Tasks that change the same paths, or changes of branches that people ask for, come one after the other.
--
-- Where a feature asks for it (`--avoid-conflicts`), no two tasks that change the same paths are under way at once.
-- A claim that meets a task whose paths overlap with those of one under way takes it out of ready_tasks and notes it here, so
-- that the next claim doesn't look at it again. It goes back when what held it is over. The row stays until the task is
-- claimed: how long it waits already decides that its turn comes.

alter table features add column avoid_conflicts boolean not null default false;

-- What the task is declared to change: paths from the repository's top, with `*`, `?` and `**`.
alter table task_texts add column paths text[] not null default '{}';

create table path_holds (
  task_id uuid primary key references tasks on delete cascade,
  feature_id uuid not null references features on delete cascade,
  -- The task that changes the same, and where.
  by_task uuid not null references tasks on delete cascade,
  path text not null,
  since timestamptz not null default clock_timestamp(),
  -- It may be claimed again since.
  released_at timestamptz
);

create index path_holds_of_feature on path_holds (feature_id, since, task_id);
create index path_holds_by on path_holds (by_task);

-- When a task that conflicted twice in a row may be claimed again: it is not in ready_tasks before its turn comes.
alter table tasks add column not_before timestamptz;

-- While it waits for its time, what passed may land: its next attempt begins on top of that.
create or replace function held_by_collision(integration integrations) returns boolean language sql stable as $$
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

-- When a change of branches without an agent was let push: from then on a person can't take its task away, and before, it
-- doesn't push what was taken away.
alter table dispatches add column decided_at timestamptz;
