-- What people correct stays corrected. A session that merges entries was told what they said before: if one is corrected meanwhile, its
-- answer counts for nothing, as when one is taken back. And an import doesn't replace what a person has said since.

alter table distillations
  -- A person changed one of its entries before it answered.
  add column edited boolean not null default false;

alter table knowledge
  -- When a person last changed what it says.
  add column edited_at timestamptz;
