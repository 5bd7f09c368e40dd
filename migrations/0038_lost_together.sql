-- Whether a dispatch was lost alone, and so may have killed its worker, is told by what else of that worker's life was lost lately. Few are
-- lost, so this costs the others nothing.
create index lost_dispatches on dispatches (worker, settled_at) where state = 'lost';
