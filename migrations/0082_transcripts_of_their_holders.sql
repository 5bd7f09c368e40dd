-- A worker's name goes to another data folder when its holder isn't heard any more. What the earlier folder was given stays its own: only
-- lives of the same folder may renew it, report on it and tell what its sessions show. So each life is noted with its folder; of lives
-- before this one nothing is known, and they keep the rights of their name.
create table worker_lives (
  incarnation uuid primary key,
  data_id text not null,
  began_at timestamptz not null default now()
);

-- How many entries of a transcript a coordinator has seen, those included that were left out of a long one: its worker sends it again
-- until they are as many as the session had. Null for those that were kept before.
alter table transcripts add column seen bigint;
