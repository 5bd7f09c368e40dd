-- When what a deleted task landed had landed: what landed last is then told whichever task is deleted, and in whatever order. Rows
-- without it are of earlier releases, and stand behind whatever stands.

alter table features add column landed_at timestamptz;
