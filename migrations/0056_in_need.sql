-- A status names each feature that has tasks that need a person, however long ago it was made. These are few among many, and are looked
-- for each second.

create index features_in_need on features (id) where needs_review > 0;
