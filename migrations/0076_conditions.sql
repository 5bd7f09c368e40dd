-- What people do to features as a whole; what they do to tasks is in task_logs.
create table feature_logs (
  id bigint generated always as identity primary key,
  feature_id uuid not null references features on delete cascade,
  at timestamptz not null default now(),
  actor text not null,
  what text not null,
  why text
);

create index feature_logs_of_feature on feature_logs (feature_id);
create index feature_logs_at on feature_logs (at);
create index task_logs_at on task_logs (at);

-- Who waits for a run is told of attempts that came to nothing, which are few among many.
create index failed_dispatches on dispatches (feature_id, id)
  where outcome in ('failed', 'no_sigil', 'error', 'conflict', 'lost', 'door');

-- Features that don't run and aren't over wait for a person, and are looked for each second.
create index features_ready on features (id) where state = 'ready';
