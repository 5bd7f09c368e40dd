-- Features whose tasks work in a folder of one machine itself, without a clone (DESIGN 6, `dir`). Which machine, their tasks'
-- pool tells.

alter table features
  add column dir text check (dir like '/%'),
  add constraint a_folder_is_no_repository check (dir is null or repo_address is null),
  -- One writer at a time.
  add constraint a_folder_has_one_session check (dir is null or max_parallel = 1);
