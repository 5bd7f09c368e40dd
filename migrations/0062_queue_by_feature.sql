-- Everything that looks at the queue asks for one feature, so the feature comes first: what asks for no pool used to go
-- through the entries of all features.
drop index ready_queue;
create index ready_queue on ready_tasks (feature_id, pool, agent, priority, task_id);

-- Verifications, integrations and changes of branches; few of all entries.
create index ready_follow_ups on ready_tasks (feature_id) where priority <= -2147483647;
