-- The index of what is remembered, anew (SPEC 6.5). With GIN each entry of an index had to be looked up in its row for the
-- moment of learning, and reading 6,000 of them for a claim took 40 ms; and a key's count never went down again. So an entry of the
-- index carries number and moment itself, eight bytes in blocks by key, and a claim reads some hundred blocks. They are appended
-- behind, in the background, by one writer at a time; until then entries are read as they are.

drop index memory_docs_by_key;

-- An entry's number, and the minutes from 2000 to when it was learned (26 bits). The larger one is the newer entry.
create function memory_posting(id bigint, created_at timestamptz) returns bigint
  language sql stable parallel safe
  return (id << 26)
    | least(greatest((floor(extract(epoch from created_at))::bigint - 946684800) / 60, 0), (1 << 26) - 1);

create table memory_postings (
  key bigint not null,
  block integer not null,
  entries bigint[] not null,
  primary key (key, block)
) with (fillfactor = 70);

-- Entries that wait to be appended. A row an entry, and no mark up to which all were: numbers are given when entries are written,
-- not when they are committed, so one below a mark may still come.
create table memory_unmerged (
  doc_id bigint primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Entries that stood in blocks when they left, until they are taken out of their keys' blocks and counts.
create table memory_removed (
  doc_id bigint primary key,
  posting bigint not null,
  keys bigint[] not null
);

-- Candidates are read from one table.
alter table memory_words add column entry uuid, add column created_at timestamptz;
update memory_words w set entry = d.entry, created_at = d.created_at from memory_docs d where d.id = w.doc_id;
alter table memory_words alter column entry set not null, alter column created_at set not null;

-- All entries are merged again.
truncate memory_keys;
insert into memory_unmerged select id from memory_docs;
delete from system_state where key = 'memory_keys_counted';
