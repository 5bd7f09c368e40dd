-- An entry gets its number before its transaction ends, so one that took long could stand below the mark that vectors were made up to, and
-- never got any. While nothing else is to be done, a second mark goes round below the first one, and finds what has none.

alter table memory_embedding add column looked bigint not null default 0;

-- What the model refused has a vector of no numbers, or it would be found there every time.
