-- Workers no longer move attempts from branches to refs of their own. Retention removes them from both places.
drop index dispatches_in_branches;
alter table features drop column move_tried_at;
