-- When an account's pause ends, one session tries it before the others that wait (SPEC 7.3): which, and since when. It keeps them
-- waiting while it is live; that it got past the door is told by its worker's heartbeat, or by its report.

alter table account_doors
  add column probe uuid,
  add column probed_at timestamptz,
  add constraint probe_has_time check ((probe is null) = (probed_at is null));
