-- A submission looks whether another feature of its repository lands on its branch. Not unique: earlier releases took what they were
-- given, and features that share a branch since then stay as they are.

create index features_of_branch on features (repo_id, branch) where branch is not null;
