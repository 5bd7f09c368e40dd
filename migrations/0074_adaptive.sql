-- A strategy that chooses models by what came of earlier attempts in the repository.

alter table runs drop constraint runs_model_strategy_check;
alter table runs add constraint runs_model_strategy_check
  check (model_strategy in ('fixed', 'cost-optimized', 'escalate', 'plan-then-execute', 'adaptive'));
