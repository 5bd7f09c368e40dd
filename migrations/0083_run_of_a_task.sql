-- A run may be of one task and its parts (`task run`): nothing else of the feature begins in it. What ends an attempt that was begun, and
-- the gate's check, go on in any run, since landings take turns.
alter table runs add column only_task uuid;

-- Whether a task is this one, or a part of it on any level.
create function task_within(task uuid, above uuid) returns boolean
language sql stable parallel safe
return exists (
  with recursive line as (
    select id, parent_id from tasks where id = task
    union
    select t.id, t.parent_id from tasks t join line on t.id = line.parent_id
  )
  select from line where id = above
);
