-- What an entry was worth to an attempt that was shown it, by its agent's own word. An entry that nobody marked moves by no outcome:
-- it may have had nothing to do with it.
alter table memory_uses
  -- Whether it helped or misled; null where the agent said nothing.
  add column helped boolean;

-- How attempts of a repository ended, to tell what was to be expected of another one.
create index memory_trials_of_repo on memory_trials (repo_id) where outcome is not null;
