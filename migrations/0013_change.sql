-- What a task's work changed in all, as its worker read it from git: where it began, the beginning of the diff for whoever
-- verifies it, and what became weaker in tests. A person may want to see the last of these long after, so it stays; the diff
-- is kept only where a verification follows.
alter table dispatches add column change jsonb;
