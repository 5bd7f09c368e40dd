-- Requests that may be sent twice and are done once: whoever sends the same `Idempotency-Key` again gets the answer of the
-- first time. A row is claimed before the request is served, and the claim is renewed while it is; a coordinator that dies
-- meanwhile stops renewing, and the next request with the key takes the row over.
create table idempotency_keys (
  -- Whose key it is: the hash of the token.
  token_sha256 text not null,
  key text not null,
  -- Of method, path and body: a key stands for one request.
  request_sha256 text not null,
  -- The id of what the request makes. It stays when the row is taken over, so that what was made already is found.
  made_id uuid not null,
  -- Who serves the request, and until when that counts as alive.
  holder uuid not null,
  held_until timestamptz not null,
  created_at timestamptz not null default now(),
  -- The answer, once there is one. Its body is sealed with a key that only the sender's token yields, since it may hold a
  -- new token.
  status integer,
  sealed_body bytea,
  primary key (token_sha256, key),
  check ((status is null) = (sealed_body is null))
);

create index idempotency_keys_age on idempotency_keys (created_at);
