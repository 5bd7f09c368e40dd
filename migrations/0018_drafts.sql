-- What a feature that doesn't run yet was given for its first run: limits and choices, and what its tasks get that don't say
-- otherwise. The run's own row stands only once it has begun, so without these a draft would forget what it was told.
alter table features
  add column first_run jsonb,
  add column task_defaults jsonb;
