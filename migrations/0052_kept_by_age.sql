-- Transcripts, prompts, what attempts were shown and reports that nobody could read were kept for ever: half a million sessions a
-- year leave some eighty gigabytes of transcripts, and a secret that was purged from memory stayed in them. They go by their age now. Rows
-- come in the order of their times, so an index of blocks finds the old ones; it takes a few pages, and no update of a row writes into it.

create index transcripts_by_age on transcripts using brin (stored_at) with (autosummarize = on);
create index prompts_by_age on prompts using brin (created_at) with (autosummarize = on);
create index memory_uses_by_age on memory_uses using brin (used_at) with (autosummarize = on);
create index bad_reports_by_age on bad_reports using brin (received_at) with (autosummarize = on);
