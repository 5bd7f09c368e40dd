-- What an outside model says of entries, where one is configured (SPEC 6.5): plain arrays of length 1, which every server can
-- store. They are made in the background, after the entries; an entry without one is found by its words all the same.

create table memory_vectors (
  doc_id bigint primary key references memory_docs on delete cascade,
  -- The model's name, since vectors of different models can't be compared.
  model text not null,
  vector real[] not null
);

-- How far that has come. One row: a system has one model at a time, and starts anew with another.
create table memory_embedding (
  only_row boolean primary key default true check (only_row),
  model text not null,
  -- Numbers of each vector; null until the model answered first.
  dimensions integer,
  -- Entries up to this one have vectors, but for those that the model refused.
  upto bigint not null default 0,
  -- How many got one since this is the model, and how many it refused.
  made bigint not null default 0,
  refused bigint not null default 0,
  -- The coordinator that asks for the next ones; another may once the time is over.
  held_by uuid,
  held_until timestamptz
);
