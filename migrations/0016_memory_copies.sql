-- Entries that say the same, whoever wrote them and in whatever order of words. Two attempts that learn the same are two witnesses
-- of one entry. And what an attempt wrote after it was shown an entry that is revoked may repeat it: then it goes back to quarantine
-- until a person restores it.
alter table learnings
  -- Of the words that it says, to find entries that say nearly the same; null where it needs no comparison.
  add column bands bigint[],
  -- It says the same as the entry that replaces it, which is older.
  add column is_witness boolean not null default false,
  -- The revoked entry, or dispatch, that it repeats; it stays in quarantine meanwhile.
  add column doubted_by uuid;
alter table knowledge
  add column bands bigint[],
  add column is_witness boolean not null default false,
  add column doubted_by uuid;

create index said_learnings on learnings using gin (bands)
  where origin in ('attempt', 'distilled') and released_at is not null and pruned_at is null and superseded_by is null;
create index said_knowledge on knowledge using gin (bands)
  where origin in ('attempt', 'distilled') and released_at is not null and pruned_at is null and superseded_by is null;

-- The revoked entry, or dispatch, that the journal of this one quotes: no prompt shows it any more.
alter table dispatches add column journal_doubted_by uuid;
