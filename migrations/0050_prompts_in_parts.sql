-- A long prompt goes to its worker in parts, which stay for two days beside the prompt that is kept. Whoever purges what it shows, or sends
-- its dispatch another one, finds them by the dispatch that was sent them last.

alter table blob_parts add column prompt_of uuid;
create index parts_of_prompts on blob_parts (prompt_of) where prompt_of is not null;
