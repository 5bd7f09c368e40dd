-- A person corrects an entry while a session merges it: the session was told what the entry said before, so its answer counts for
-- nothing, as when the entry is taken back.

alter table distillations
  -- A person changed one of its entries before it answered.
  add column edited boolean not null default false;
