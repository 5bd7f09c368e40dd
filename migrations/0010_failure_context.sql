-- A failure stays in the prompts of its siblings when its own task is done, until their parent is (SPEC 6.3).
create index resolved_errors on session_memory (feature_id, id) where kind = 'error' and resolved_at is not null;
