-- The steps of a feature that starts with an idea, a specification or a plan (SPEC 2.1, 5): tasks like others, whose sessions
-- write a text or a graph instead of code. And who looks before the next step starts.

-- What a task's own sessions are; verify and integrate follow a role that changes files.
alter table tasks add column role session_kind not null default 'work'
  check (role in ('spec', 'plan', 'build', 'work', 'review', 'git'));

alter table features
  -- Steps whose result a person approves.
  add column approve session_kind[] not null default '{}',
  -- How often the whole feature is reviewed at most; 0 is never.
  add column review_rounds integer not null default 0 check (review_rounds >= 0);

-- A graph that waits for its approval.
alter table feature_texts add column proposed_graph text;

alter table runs
  -- Commands that must succeed on exactly the commit that lands.
  add column gate text[] not null default '{}',
  -- Nobody chose the limit of iterations: it grows with the tasks that agents add.
  add column limit_grows boolean not null default false;
