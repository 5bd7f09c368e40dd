-- Submitting a graph checked four foreign keys for each task and edge, and queueing what was freed one more, each with a lock that is
-- written. Texts, edges and places in the queue are written in the transaction that holds their feature, for tasks that it made or
-- holds; whoever deletes tasks deletes them as well (store/edit.rs).

alter table task_texts drop constraint task_texts_task_id_fkey;
alter table dependencies drop constraint dependencies_task_id_fkey, drop constraint dependencies_blocker_id_fkey;
alter table ready_tasks drop constraint ready_tasks_task_id_fkey;
