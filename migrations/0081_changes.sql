-- Every change that somebody asked for through the API, or that a schedule or a hook made: who, what, of what, and with which values.
--
-- It answers "who did it" for what has no log of its own: features, tokens, memory, budgets, schedules, hooks, workers. It outlives what
-- it is about, so nothing here refers to a feature's row: who deleted a feature is asked when the feature is gone.

create table changes (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  -- Name of the token, `schedule`, or `hook NAME`.
  actor text not null,
  verb text not null,
  -- What kind of thing it is, and its name.
  kind text not null,
  name text not null default '',
  -- The feature that it is, or belongs to.
  feature_id uuid,
  -- The values that were given, the reason among them.
  why text
);

create index changes_of_feature on changes (feature_id, id) where feature_id is not null;
-- What happened since some time.
create index changes_at on changes (at);
