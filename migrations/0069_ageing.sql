-- Priorities age, so that a task of a low one starts in a bounded time however many of a high one come after it.
--
-- A task's place in the queue is fixed when it becomes ready: the moment of that, moved by less than half an hour either way by
-- its priority. So nothing that becomes ready an hour later goes before it, and to age costs no update.

-- Seconds; the least goes first. What finishes what was begun (priority -2^31 and -2^31 + 1) goes before everything.
create function queue_due(priority integer, since timestamptz) returns double precision
language sql immutable parallel safe as $$
  select case when priority <= -2147483647 then priority
              else date_part('epoch', since - timestamptz '2000-01-01 00:00:00+00')
                   + 1800 * (priority / (1 + abs(priority::double precision)))
         end
$$;

alter table ready_tasks
  -- When it could have been claimed first.
  add column since timestamptz not null default now(),
  add column due double precision not null generated always as (queue_due(priority, since)) stored;

drop index ready_queue;
create index ready_queue on ready_tasks (feature_id, pool, agent, due, task_id);

alter table features
  -- Its part of the slots beside that of others.
  add column weight integer not null default 1 check (weight between 1 and 1000),
  -- Nothing of it begins before.
  add column not_before timestamptz,
  -- When it should be finished.
  add column deadline timestamptz,
  add column stop_at_deadline boolean not null default false,
  -- For which deadline people were told that it has passed.
  add column deadline_told timestamptz;

create index feature_deadlines on features (deadline) where state = 'running' and deadline is not null;
