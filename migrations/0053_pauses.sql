-- The wall time that a run may take went on while its feature was paused: paused on Friday, it ended when it was resumed on Monday.

alter table runs
  -- When the pause began that lasts.
  add column paused_at timestamptz,
  -- How long the pauses took that are over. Milliseconds.
  add column paused_ms bigint not null default 0 check (paused_ms >= 0);
