-- What was kept and never read. Rows that are written with each landing and each session cost less without.

-- The count of the memory's keys stood there until blocks of postings counted them; nothing else ever did.
drop table system_state;

-- Why an integration went back or ended stands in its dispatch, and in the task's log where a person ended it.
alter table integrations drop column message;

-- When an agent asked is when its session was settled: both are written in one transaction.
alter table questions drop column asked_at;
