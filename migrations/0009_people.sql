-- Tokens, changes that people made, idempotent requests, notices.

create table api_tokens (
  id uuid not null,
  name text not null,
  sha256 text not null,
  role api_role not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  -- From then on it is refused, with words of its own: whoever holds it learns that it was right.
  expires_at timestamptz,
  revoked_at timestamptz,
  unique (name),
  primary key (id),
  unique (sha256)
);

-- Who is logged in to the page: the session of a browser, or the code of a link that may begin one once. Either stands for a token and
-- may do what that token may, as long as it holds. Both are kept as hashes, so whoever reads the table can't log in with it.
create table page_logins (
  sha256 text not null,
  token_sha256 text not null,
  is_code boolean not null,
  expires_at timestamptz not null,
  -- When its browser was last looked into, to the minute, and when it was left before that: what happened since is news.
  seen_at timestamptz not null default now(),
  left_at timestamptz,
  primary key (sha256)
);

create index page_logins_expire on page_logins (expires_at);
create index page_logins_of_token on page_logins (token_sha256, seen_at);

create table changes (
  id bigint not null generated always as identity,
  at timestamptz not null default now(),
  -- Name of the token, `schedule`, or `hook NAME`.
  actor text not null,
  verb text not null,
  -- What kind of thing it is, and its name.
  kind text not null,
  name text not null default '',
  -- The feature that it is, or belongs to.
  feature_id uuid,
  -- The values that were given, the reason among them.
  why text,
  primary key (id)
);

-- What happened since some time.
create index changes_at on changes (at);
create index changes_of_feature on changes (feature_id, id) where (feature_id is not null);

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
  -- What a command under an `Idempotency-Key` came to, written in the command's own transaction: whoever takes the key over from
  -- a coordinator that died before it answered finds that it was done, and does it no second time. What a request makes is
  -- found by its id instead.
  done_count bigint,
  constraint idempotency_keys_check check (((status is null) = (sealed_body is null))),
  primary key (token_sha256, key)
);

create index idempotency_keys_age on idempotency_keys (created_at);
create index idempotency_keys_made on idempotency_keys (made_id);

create table notices (
  id uuid not null,
  event notice_event not null,
  -- What it is about: a feature, or a pool.
  feature_id uuid,
  pool text,
  run_id uuid,
  task_id uuid,
  outcome run_outcome,
  reason text not null,
  at timestamptz not null default now(),
  -- Deliveries that failed so far, and when the next one is due.
  tries integer not null default 0,
  next_at timestamptz not null default now(),
  -- The address has it, the command doesn't yet.
  posted boolean not null default false,
  -- Delivered, or given up with this error.
  closed_at timestamptz,
  error text,
  commanded boolean not null default false,
  constraint a_notice_is_about_something check (((feature_id is null) or (pool is null))),
  primary key (id)
);

create index notices_open on notices (next_at) where (closed_at is null);
-- `status` says which notices could not be delivered. It is asked every second, and most notices were.
create index notices_undelivered on notices (at) where (error is not null);
