-- What a moment of a task (its end, or its start) waits for directly, through blockers and parents together: stated once, since
-- refusing a circle and telling people about it must mean the same.

create function awaited(task uuid, at_end boolean) returns table (id uuid, is_end boolean) language sql stable as $$
  -- An end waits for its own start and for the ends of its parts; a start for the ends of its blockers and its parent's start.
  select $1, false where $2
  union all
  select t.id, true from tasks t where $2 and t.parent_id = $1
  union all
  select d.blocker_id, true from dependencies d where not $2 and d.task_id = $1
  union all
  select t.parent_id, false from tasks t where not $2 and t.id = $1 and t.parent_id is not null
$$;
