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
