-- A run may be one that no person watches.
--
-- What used up its retries, or can't go on for another reason that only a person could mend, waits for one (needs_review).
-- Where review is off it fails for good instead: the run comes to an end by itself, and the feature's failure policy acts.
-- What somebody asked to approve waits all the same.

alter table runs add column review boolean not null default true;
