-- The ways to choose models are a closed set, which the rows keep to as well. What an older release took for a word that it didn't know
-- was the default.
update runs
set model_strategy = 'cost-optimized'
where model_strategy not in ('fixed', 'cost-optimized', 'escalate', 'plan-then-execute');

alter table runs add constraint runs_model_strategy_check
  check (model_strategy in ('fixed', 'cost-optimized', 'escalate', 'plan-then-execute'));
