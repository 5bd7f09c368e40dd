-- Paths whose change a person approves before it lands, and whether one did.
alter table runs add column protect text[] not null default '{}';
alter table integrations add column approved boolean not null default false;
