-- A claim and a report write less. A foreign key writes a lock into the row that it refers to, with
-- every dispatch and every learning. Dispatches are only opened from tasks' rows, within the statement that updates them, and
-- learnings by reports of dispatches: whoever deletes a task or a feature deletes its dispatches, and lets its learnings go
-- (store/edit.rs).

alter table dispatches drop constraint dispatches_task_id_fkey;
alter table learnings drop constraint learnings_task_id_fkey;
