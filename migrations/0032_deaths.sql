-- Deaths of a task's worker, in a row, in which other tasks were lost too: a task that kills busy workers ends with a person as well.

alter table tasks add column lost_with_others smallint not null default 0;
