-- A learning stands in the index with its own row: a report that leaves one writes a row and three index entries less.

alter table learnings
  -- Its number in the index, and when it got it; null while it isn't in it.
  add column doc_id bigint,
  add column indexed_at timestamptz,
  -- Packed, as those of memory_docs are.
  add column words bytea;

-- Hashes can't be compressed.
alter table learnings alter column words set storage external;

update learnings l
set doc_id = d.id, indexed_at = d.indexed_at, words = d.words
from memory_docs d
where d.entry = l.id;

-- Vectors belong to numbers; whoever takes an entry out of the index deletes its vector (store/recall.rs).
alter table memory_vectors drop constraint memory_vectors_doc_id_fkey;

delete from memory_docs where kind = 'learning';

alter table learnings
  add constraint indexed_with_words check ((doc_id is null) = (words is null) and (doc_id is null) = (indexed_at is null));

create unique index learnings_doc_id_key on learnings (doc_id);

-- All that the index knows, by number: numbers of both tables come from the same sequence.
create view memory_entries as
select id, entry, created_at, indexed_at, repo_id, kind, words
from memory_docs
union all
select doc_id, id, created_at, indexed_at, repo_id, 'learning'::memory_kind, words
from learnings
where doc_id is not null;

-- Knowledge that is let in is compared with what shares a tag with it, not with all of its repository.
create index live_knowledge_by_tag on knowledge using gin (tags)
  where released_at is not null and pruned_at is null and superseded_by is null;

-- Errors of tasks that may be done by now.
create index unresolved_errors on session_memory (task_id) where kind = 'error' and resolved_at is null;
