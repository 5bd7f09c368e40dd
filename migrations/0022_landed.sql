-- What landed last of a feature's tasks that were deleted since: their integrations went with them, but the branch holds it,
-- and nothing may land on a branch that lost what had landed.

alter table features
  add column landed_commit text,
  add column landed_task uuid;
