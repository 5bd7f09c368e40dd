-- A worker on which everything fails is drained by itself, and people are told why.

alter table workers add column drain_reason text;

alter type notice_event add value 'worker_drained';
