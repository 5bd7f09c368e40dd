-- What a command under an `Idempotency-Key` came to, written in the command's own transaction: whoever takes the key over from
-- a coordinator that died before it answered finds that it was done, and does it no second time. What a request makes is
-- found by its id instead.
alter table idempotency_keys add column done_count bigint;

create index idempotency_keys_made on idempotency_keys (made_id);
