-- What happened since some time, over all features.
create index task_logs_at on task_logs (at);

-- Who waits for a run is told of attempts that came to nothing, which are few among many.
create index failed_dispatches on dispatches (feature_id, id)
  where outcome in ('failed', 'no_sigil', 'error', 'conflict', 'lost', 'door');

-- Features that don't run and aren't over wait for a person, and are looked for each second.
create index features_ready on features (id) where state = 'ready';
