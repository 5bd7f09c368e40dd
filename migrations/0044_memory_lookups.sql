-- What follows the repository's files looks entries up, where it read all of the memory.

-- The entries that are files, whichever head these were found at: a feature may begin without them.
create index knowledge_of_files on knowledge (repo_id) where origin = 'repository' and external_id is not null;

-- A feature that begins is compared with the head of its repository that was looked at last.
drop index surveys_of_repo;
create index surveys_of_repo on surveys (repo_id, at desc);

-- Whoever deletes a task lets its knowledge go as its learnings (0034, store/edit.rs): with a feature of 100,000 tasks the key had all
-- knowledge read as often. What an entry took the place of is looked up when it is deleted.
alter table knowledge drop constraint knowledge_task_id_fkey;
create index replaced_learnings on learnings (superseded_by) where superseded_by is not null;
create index replaced_knowledge on knowledge (superseded_by) where superseded_by is not null;
