-- What the vectors of an outside model mean in each memory (SPEC 6.5): asked about its own entries, as for its floor by words, it shows
-- how near is near there. Only then does whether an answer is shown rest on vectors as well.

create table memory_nearness (
  repo_id text not null,
  kind memory_kind not null,
  -- Vectors of different models can't be compared.
  model text not null,
  -- The mean of its entries' vectors.
  centre real[] not null,
  -- The cosine that is usual, how much confidence one more is worth, and the floor of both together; null where its entries show
  -- nothing.
  usual double precision,
  weight double precision,
  floor double precision,
  found_at_entries bigint not null,
  primary key (repo_id, kind),
  foreign key (repo_id, kind) references memory_stats on delete cascade,
  constraint found_together check (num_nulls(usual, weight, floor) in (0, 3))
);
