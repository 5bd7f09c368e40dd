-- What follows the repository's files looks entries up, where it read all of the memory.

-- The entries that are files, whichever head these were found at: a feature may begin without them.
create index knowledge_of_files on knowledge (repo_id) where origin = 'repository' and external_id is not null;

-- A feature that begins is compared with the head of its repository that was looked at last.
drop index surveys_of_repo;
create index surveys_of_repo on surveys (repo_id, at desc);
