-- What was ever spent, by day, account, agent, model and kind of session: sums that stay when features are deleted, so that a limit
-- of an account or of the installation holds, and counters never fall. A row is written where a dispatch ends or tells more once it
-- is over, whoever writes that, so no way past it can be forgotten; what an estimate was too much stays counted. Each connection has
-- its own part of a sum: transactions that settle at once don't wait for each other.

create table spending (
  day date not null,
  account text not null,
  agent text not null,
  model text not null,
  kind session_kind not null,
  part integer not null,
  sessions bigint not null,
  -- Sessions whose cost nobody knows, and those that cost nothing by use.
  unpriced bigint not null,
  subscribed bigint not null,
  cost_usd double precision not null,
  -- How much of it is estimated.
  estimated_usd double precision not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cached_tokens bigint not null,
  cache_write_tokens bigint not null,
  primary key (day, account, agent, model, kind, part)
) with (fillfactor = 50);

insert into spending
select (settled_at at time zone 'utc')::date, coalesce(account, ''), coalesce(agent, 'default'), coalesce(model_used, model, ''), kind,
       0, count(*), 0, 0, coalesce(sum(cost_usd), 0), 0, coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
       coalesce(sum(cached_tokens), 0), coalesce(sum(cache_write_tokens), 0)
from dispatches
where state <> 'live' and kind not in ('integrate', 'git', 'check')
group by 1, 2, 3, 4, 5;

create function note_spending() returns trigger language plpgsql as $$
declare
  -- What was counted of it before.
  before dispatches := old;
begin
  if old.state = 'live' then
    before.cost_usd := 0; before.cost_basis := null; before.input_tokens := 0; before.output_tokens := 0;
    before.cached_tokens := 0; before.cache_write_tokens := 0;
  end if;
  insert into spending as s
  values ((now() at time zone 'utc')::date, coalesce(new.account, ''), coalesce(new.agent, 'default'),
          coalesce(new.model_used, new.model, ''), new.kind, pg_backend_pid() % 1024, (old.state = 'live')::int,
          (new.cost_basis is not distinct from 'unknown' and before.cost_basis is distinct from 'unknown')::int,
          (new.cost_basis is not distinct from 'subscription' and before.cost_basis is distinct from 'subscription')::int,
          greatest(coalesce(new.cost_usd, 0) - coalesce(before.cost_usd, 0), 0),
          case when new.cost_basis = 'estimated' then greatest(coalesce(new.cost_usd, 0) - coalesce(before.cost_usd, 0), 0) else 0 end,
          greatest(coalesce(new.input_tokens, 0) - coalesce(before.input_tokens, 0), 0),
          greatest(coalesce(new.output_tokens, 0) - coalesce(before.output_tokens, 0), 0),
          greatest(coalesce(new.cached_tokens, 0) - coalesce(before.cached_tokens, 0), 0),
          greatest(coalesce(new.cache_write_tokens, 0) - coalesce(before.cache_write_tokens, 0), 0))
  on conflict (day, account, agent, model, kind, part) do update
  set sessions = s.sessions + excluded.sessions, unpriced = s.unpriced + excluded.unpriced,
      subscribed = s.subscribed + excluded.subscribed, cost_usd = s.cost_usd + excluded.cost_usd,
      estimated_usd = s.estimated_usd + excluded.estimated_usd, input_tokens = s.input_tokens + excluded.input_tokens,
      output_tokens = s.output_tokens + excluded.output_tokens, cached_tokens = s.cached_tokens + excluded.cached_tokens,
      cache_write_tokens = s.cache_write_tokens + excluded.cache_write_tokens;
  return null;
end
$$;

create trigger spending_of_dispatches after update on dispatches for each row
when (new.state <> 'live' and new.kind not in ('integrate', 'git', 'check')
      and (old.state = 'live' or new.cost_usd is distinct from old.cost_usd or new.cost_basis is distinct from old.cost_basis
           or new.input_tokens is distinct from old.input_tokens or new.output_tokens is distinct from old.output_tokens
           or new.cached_tokens is distinct from old.cached_tokens
           or new.cache_write_tokens is distinct from old.cache_write_tokens))
execute function note_spending();
