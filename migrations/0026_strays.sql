-- What an agent committed elsewhere than under the files that it left (other branches, no branch, its stash) is pushed to refs
-- beside its attempt's: people see them with the attempt, later attempts are told of them. Few attempts have any. A list of
-- the objects that workers report.
alter table dispatches add column strays jsonb;
