-- Repositories that a token may name, as patterns over `host/path` (`github.com/acme/*`). None: any that the configuration allows.
alter table api_tokens add column repositories text[] not null default '{}';
