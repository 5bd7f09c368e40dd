-- An entry's words are one value of its row, which only the coordinator reads (domain/recall/packed.rs says its form): eight arrays
-- cost more to write, to store and to read than what is in them.

alter table memory_docs add column words bytea;

update memory_docs
set words = (
  select string_agg(int4send(word), ''::bytea order by n)
  from unnest(
    array[cardinality(title), cardinality(body), cardinality(place), cardinality(tags), cardinality(names), cardinality(stems),
          cardinality(files), cardinality(folders)]
    || title || body || place || tags || names || stems
    || array(select half.word
             from unnest(files) with ordinality as f(key, n)
             cross join lateral (values (1, (f.key >> 32)::int), (2, ((f.key << 32) >> 32)::int)) as half(n, word)
             order by f.n, half.n)
    || folders
  ) with ordinality as w(word, n)
);

alter table memory_docs
  alter column words set not null,
  drop column title,
  drop column body,
  drop column place,
  drop column tags,
  drop column names,
  drop column stems,
  drop column files,
  drop column folders;
