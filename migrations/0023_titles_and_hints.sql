-- A title or a foreign name of any length finds its place in an index: entries of a b-tree may have 2.7 KB, and what an agent or
-- a file says may have more. Texts are compared by their hashes, then by themselves.

drop index live_knowledge;
create index live_knowledge on knowledge (repo_id, md5(lower(title)))
  where released_at is not null and pruned_at is null and superseded_by is null;

drop index learnings_by_external_id;
create unique index learnings_by_external_id on learnings (repo_id, md5(external_id)) where external_id is not null;
drop index knowledge_by_external_id;
create unique index knowledge_by_external_id on knowledge (repo_id, md5(external_id)) where external_id is not null;

-- The model that an agent asked for when it was done with a task: what the task frees gets it (SPEC 4.1).
alter table task_texts add column hinted_model text;
create index task_texts_hints on task_texts (task_id) where hinted_model is not null;
