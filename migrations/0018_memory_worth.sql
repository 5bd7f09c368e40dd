-- Memories that were found to hurt, by comparing attempts that had them with those that were held out. Nothing that agents wrote
-- is recalled from them until a person resumes them; then attempts are counted anew.
create table memory_switches (
  repo_id text not null,
  -- Null once a person resumed it.
  off_since timestamptz,
  reason text not null default '',
  -- Attempts before this are not compared any more.
  counted_from timestamptz not null default '-infinity',
  primary key (repo_id)
);

-- The share of attempts to hold out falls with the number of those that were.
create index memory_trials_held_out on memory_trials (repo_id) where held_out;
