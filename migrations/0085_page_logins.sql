-- Who is logged in to the page: the session of a browser, or the code of a link that may begin one once. Either stands for a token and
-- may do what that token may, as long as it holds. Both are kept as hashes, so whoever reads the table can't log in with it.
create table page_logins (
  sha256 text primary key,
  token_sha256 text not null,
  is_code boolean not null,
  expires_at timestamptz not null,
  -- When its browser was last looked into, to the minute, and when it was left before that: what happened since is news.
  seen_at timestamptz not null default now(),
  left_at timestamptz
);

create index page_logins_expire on page_logins (expires_at);
create index page_logins_of_token on page_logins (token_sha256, seen_at);
