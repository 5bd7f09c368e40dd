-- An integration that can't get at its repository (the server is away, the login refused) waits for it: that is no try to land, of which too
-- many call a person. So these are counted by themselves, in a row.

alter table integrations add column away_tries integer not null default 0;
