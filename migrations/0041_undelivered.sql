-- `status` says which notices could not be delivered. It is asked every second, and most notices were.
create index notices_undelivered on notices (at) where error is not null;
