-- Each look-up reads the whole list of entries that are still to be sorted in: hundreds of pages for each entry that arrives. Few entries
-- arrive, since copies stay outside of these indexes, so that each may be sorted in at once.
alter index said_learnings set (fastupdate = off);
alter index said_knowledge set (fastupdate = off);
