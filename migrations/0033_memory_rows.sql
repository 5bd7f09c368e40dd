-- What is remembered costs less to write (SPEC 6.5): an entry of the index is one row, entries that wait to be appended to blocks are
-- one row a transaction, and how often a key stands is kept with its newest block.

alter table memory_docs
  add column repo_id text,
  add column kind memory_kind,
  add column title integer[],
  add column body integer[],
  add column place integer[],
  add column tags integer[],
  add column names integer[],
  add column stems integer[],
  -- Keys, as the index has them.
  add column files bigint[],
  add column folders integer[];

update memory_docs d
set repo_id = w.repo_id, kind = w.kind, title = w.title, body = w.body, place = w.place, tags = w.tags, names = w.names,
    stems = w.stems, files = w.files, folders = w.folders
from memory_words w
where w.doc_id = d.id;

drop table memory_words;

-- Hashes can't be compressed.
alter table memory_docs
  alter column repo_id set not null,
  alter column kind set not null,
  -- They follow from the words.
  drop column keys,
  alter column title set not null,
  alter column title set storage external,
  alter column body set not null,
  alter column body set storage external,
  alter column place set not null,
  alter column place set storage external,
  alter column tags set not null,
  alter column tags set storage external,
  alter column names set not null,
  alter column names set storage external,
  alter column stems set not null,
  alter column stems set storage external,
  alter column files set not null,
  alter column files set storage external,
  alter column folders set not null,
  alter column folders set storage external;

create index memory_docs_of_repo on memory_docs (repo_id, kind, id);

alter table memory_unmerged rename to memory_unmerged_docs;
alter index memory_unmerged_pkey rename to memory_unmerged_docs_pkey;

-- Entries of one transaction that wait. No mark up to which all are merged: numbers are given when entries are written, not when they
-- are committed, so one below a mark may still come.
create table memory_unmerged (
  id bigint generated always as identity primary key,
  docs bigint[] not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

insert into memory_unmerged (docs)
select docs
from (
  select n / 500 as batch, array_agg(doc_id order by doc_id) as docs
  from (select doc_id, row_number() over (order by doc_id) - 1 as n from memory_unmerged_docs) waiting
  group by n / 500
) batches
order by batch;

drop table memory_unmerged_docs;

-- In how many entries the key stands, those of blocks that were dropped included. It counts in a key's newest block alone.
alter table memory_postings add column stands bigint not null default 0;

update memory_postings p
set stands = k.entries
from memory_keys k
where k.key = p.key and p.block = (select max(block) from memory_postings newest where newest.key = p.key);

alter table memory_postings alter column stands drop default;
drop table memory_keys;
