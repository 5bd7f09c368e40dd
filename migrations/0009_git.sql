-- What a conflict was about, so that the next attempt is told of both sides.

alter table integrations
  add column conflict_paths text[] not null default '{}',
  -- Last twelve digits of the ids of the tasks that landed changes of these paths.
  add column collided text[] not null default '{}';

create index conflicts_of_task on integrations (task_id, ended_at) where state = 'conflict';

-- What a task of the role `git` does to a branch, as JSON.
alter table task_texts add column operation jsonb;

alter table features
  -- How the finished feature comes into the branch that it began from; null is "it is left where it is".
  add column merge text check (merge in ('ff', 'merge', 'squash', 'command'));

-- Tasks that conflicted twice in a row run one after the other, and while one does, nothing lands that would make it
-- conflict again.
create index colliding_tasks on tasks (feature_id) where conflicts >= 2;

create function held_by_collision(integration integrations) returns boolean language sql stable as $$
  select exists (
    select 1
    from tasks s
    where s.feature_id = integration.feature_id and s.conflicts >= 2 and s.id <> integration.task_id
      and s.next_kind in ('work', 'verify')
      -- While it waits for a worker, no longer than a minute: what passed must not wait for somebody who never comes.
      and (s.state = 'in_progress'
           or exists (select 1 from ready_tasks r where r.task_id = s.id and r.not_before > now() - interval '1 minute'))
      and (select c.conflict_paths from integrations c
           where c.task_id = s.id and c.state = 'conflict' order by c.ended_at desc limit 1)
          && coalesce((select d.files_changed from dispatches d
                       where d.task_id = integration.task_id and d.commit = integration.source_commit limit 1), '{}')
  )
$$;

create index integrations_merged on integrations (feature_id, ended_at) where state = 'merged';
