-- What the answers of a memory have to reach is on another scale, since other things speak for an entry. The old floors hold until each
-- memory was asked about its own entries again, which a coordinator does within seconds.

update memory_stats set calibrated_at_entries = 0;
