-- What a person or upkeep hid can be brought back; what was taken back with its attempt, or says what was purged, can't. Both were hidden
-- without a reason, as what a person hides is.

alter table learnings
  drop constraint learnings_pruned_because_check,
  add constraint learnings_pruned_because_check
    check (pruned_because in ('unused', 'full', 'stale', 'revoked', 'purged'));
alter table knowledge
  drop constraint knowledge_pruned_because_check,
  add constraint knowledge_pruned_because_check
    check (pruned_because in ('unused', 'full', 'stale', 'revoked', 'purged'));

-- Which of these a person hid is not known any more.
update learnings set pruned_because = 'revoked'
where pruned_at is not null and pruned_because is null and origin in ('attempt', 'distilled');
update knowledge set pruned_because = 'revoked'
where pruned_at is not null and pruned_because is null and origin in ('attempt', 'distilled');
