-- A notice goes to an address and to a command. Which of them had it was noted of the address alone, and the command ran only behind it: an
-- address that failed kept people from hearing of anything. Either is noted by itself, and tried as long as it failed.

alter table notices add column commanded boolean not null default false;
