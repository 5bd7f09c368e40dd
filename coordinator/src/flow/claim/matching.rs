//! Matches free slots with ready tasks. First, each account whose pause ended gets as many slots as may use
//! it again (SPEC 7.3). Then come all other slots, grouped by equal offers. Each task brings its model and
//! agent. Not every worker can start an agent that depends on the model, so a task that none of these can
//! start returns to the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use ralph_shared::ids::{RunId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{AgentRule, ClaimRequest, DEFAULT_AGENT, Share, agent_for};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::budget::levels::{Level, Levels, SessionScope};
use crate::domain::budget::{Purse, Usual};
use crate::domain::routing::adaptive::{self, Outcomes};
use crate::domain::routing::strategy::{self, Strategy};
use crate::domain::scheduling::availability::BreakerState;
use crate::domain::scheduling::capability::{Accounts, Agents, Capability};
use crate::domain::scheduling::fairness::Unserved;
use crate::flow::claim::selection::Budget;
use crate::flow::{Settings, claim::selection};
use crate::store;
use crate::store::availability::Account;
use crate::store::budget::Tasks;
use crate::store::dispatch::context::ModelFacts;
use crate::store::queue::ready::Dequeued;
use crate::store::worker::Claimer;

/// Most queries per claim. Each one starts behind the tasks that earlier ones could not start; a later claim
/// sees the rest.
const MAX_QUERIES: usize = 32;

#[derive(Debug, Clone)]
pub(in crate::flow) struct MatchedTask {
    /// Index of the claim.
    pub index: usize,
    pub task: Dequeued,
    pub run: RunId,
    pub chosen: Chosen,
    /// Account of its agent.
    pub account: Option<String>,
    /// Share of the run's cost and tokens.
    pub share: Share,
}

/// Model and agent of a session.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct Chosen {
    /// The model, with the reason.
    pub model: Option<strategy::Choice>,
    /// The worker's agent; `None` for the default one, and without an agent.
    pub agent: Option<String>,
}

#[derive(Debug, Default)]
pub(in crate::flow) struct ClaimMatches {
    pub matched: Vec<MatchedTask>,
    /// Why each unsatisfied claim got nothing; missing means unknown.
    pub unmet: HashMap<usize, Unserved>,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::flow) struct OpenClaims<'a> {
    pub claims: &'a [ClaimRequest],
    /// The workers of the claims, by name.
    pub known: &'a HashMap<String, Claimer>,
}

impl OpenClaims<'_> {
    fn worker(&self, index: usize) -> Option<&Claimer> {
        self.known.get(&self.claims[index].worker)
    }

    /// The offer of a claim's slot.
    fn offer(&self, index: usize, accounts: Accounts<'_>) -> Option<Capability> {
        let (claim, worker) = (&self.claims[index], self.worker(index)?);
        let agents = Agents {
            accounts: &worker.accounts,
            rules: &worker.rules,
        };
        let open = claim.agents.iter().map(String::as_str);
        Some(Capability::new(&claim.pools, open, agents, accounts))
    }

    /// The claims with the same offer, by offer.
    fn offers(&self, indices: &[usize], accounts: Accounts<'_>) -> BTreeMap<Capability, Vec<usize>> {
        let mut offers: BTreeMap<Capability, Vec<usize>> = BTreeMap::new();
        for &index in indices {
            if let Some(offer) = self.offer(index, accounts) {
                offers.entry(offer).or_default().push(index);
            }
        }
        offers
    }
}

/// Matches tasks with the claims at these indices. The caller holds the lock on claims.
pub(in crate::flow) async fn match_claims(
    conn: &mut PgConnection,
    settings: &Settings,
    asking: OpenClaims<'_>,
    mut free: Vec<usize>,
    accounts: &[Account],
    levels: Levels,
) -> sqlx::Result<ClaimMatches> {
    let mut matching = Matching {
        settings,
        asking,
        levels,
        matches: ClaimMatches::default(),
    };
    for account in accounts {
        let BreakerState::Free(mut room) = account.state else {
            continue;
        };
        let only = Accounts::Only(&account.account);
        let offers = asking.offers(&free, only).into_iter();
        for (offer, mut indices) in offers.filter(|(offer, _)| !offer.startable.is_empty()) {
            indices.truncate(room);
            let before = matching.matches.matched.len();
            matching.give(conn, &offer, indices).await?;
            let given = &matching.matches.matched[before..];
            let given: Vec<usize> = given.iter().map(|one| one.index).collect();
            if let Some(first) = given.first().filter(|_| account.width == 1) {
                store::availability::try_with(conn, &account.account, asking.claims[*first].claim).await?;
            }
            free.retain(|one| !given.contains(one));
            room -= given.len();
            if room == 0 {
                break;
            }
        }
    }
    let mut closed: BTreeSet<String> = accounts.iter().map(|one| one.account.clone()).collect();
    closed.extend(matching.levels.empty_accounts().cloned());
    for (offer, indices) in asking.offers(&free, Accounts::Not(&closed)) {
        matching.give(conn, &offer, indices).await?;
    }
    if !accounts.is_empty() || !matching.levels.are_none() {
        // Reasons change with time.
        matching.matches.unmet.clear();
    }
    Ok(matching.matches)
}

/// Claims with the tasks that they got so far.
struct Matching<'a> {
    settings: &'a Settings,
    asking: OpenClaims<'a>,
    levels: Levels,
    matches: ClaimMatches,
}

struct TakenFacts {
    budgets: HashMap<RunId, Budget>,
    models: HashMap<TaskId, ModelFacts>,
    outcomes: HashMap<String, Vec<Outcomes>>,
    /// Sessions that may still start, by concurrency key.
    rooms: HashMap<String, i64>,
}

impl Matching<'_> {
    /// Gives the best tasks to slots with the same offer.
    async fn give(
        &mut self,
        conn: &mut PgConnection,
        offer: &Capability,
        indices: Vec<usize>,
    ) -> sqlx::Result<()> {
        let mut unserved = Unserved::Unknown;
        let mut unfit: Vec<Dequeued> = Vec::new();
        let mut indices = VecDeque::from(indices);
        for _ in 0..MAX_QUERIES {
            if indices.is_empty() {
                break;
            }
            let before: Vec<Dequeued> = self.matches.matched.iter().map(|one| one.task.clone()).collect();
            let turns = &self.settings.turns;
            let took = selection::take(conn, offer, indices.len(), &before, turns, &self.levels).await?;
            unserved = took.unserved;
            if took.tasks.is_empty() {
                break;
            }
            let mut facts = self.read(conn, &took.tasks, took.budgets).await?;
            let known_unfit = unfit.len();
            for (task, run) in took.tasks {
                let fitted = match indices.front() {
                    Some(&index) => self.fit(&mut facts, offer, index, (task, run)),
                    None => Err(task),
                };
                match fitted {
                    Ok(matched) => {
                        indices.pop_front();
                        self.matches.matched.push(matched);
                    }
                    Err(task) => unfit.push(task),
                }
            }
            if unfit.len() == known_unfit {
                break;
            }
        }
        if !unfit.is_empty() {
            unserved = Unserved::Unknown;
            // After the last query, so that none takes them twice. Others may take them at once.
            store::queue::ready::put_back(conn, &unfit).await?;
        }
        let unmet = indices.into_iter().map(|index| (index, unserved));
        self.matches.unmet.extend(unmet);
        Ok(())
    }

    /// Reads facts about taken tasks. Subtracts the shares of matched tasks from their budgets.
    async fn read(
        &mut self,
        conn: &mut PgConnection,
        taken: &[(Dequeued, RunId)],
        mut budgets: HashMap<RunId, Budget>,
    ) -> sqlx::Result<TakenFacts> {
        for one in &self.matches.matched {
            if let Some(budget) = budgets.get_mut(&one.run) {
                budget.purse.give(one.share);
            }
        }
        let ids: Vec<Uuid> = taken.iter().map(|(one, _)| one.task.0).collect();
        if self.levels.limits(Level::Task) {
            store::budget::of_tasks(conn, &mut self.levels, Tasks::Of(&ids)).await?;
        }
        let models = store::dispatch::context::models(conn, &ids).await?;
        let models: HashMap<TaskId, ModelFacts> = models.into_iter().collect();
        Ok(TakenFacts {
            budgets,
            outcomes: outcomes(conn, models.values()).await?,
            models,
            rooms: rooms(conn, taken, &self.matches.matched).await?,
        })
    }

    /// Matches a task with a slot, or returns it when the slot can't start it.
    fn fit(
        &mut self,
        known: &mut TakenFacts,
        offer: &Capability,
        index: usize,
        (task, run): (Dequeued, RunId),
    ) -> Result<MatchedTask, Dequeued> {
        let worker = self.asking.worker(index);
        let rules = worker.map_or(&[][..], |worker| &worker.rules);
        let facts = known.models.get(&task.task);
        let (chosen, agent) = match facts {
            Some(facts) => choose(
                self.settings,
                rules,
                (task.task, facts),
                task.kind,
                &known.outcomes,
            ),
            None => Default::default(),
        };
        let has_key = task
            .key
            .as_ref()
            .is_none_or(|key| known.rooms.get(key).is_some_and(|room| *room > 0));
        let is_able = has_key && (task.kind != SessionKind::Check || self.asking.claims[index].checks);
        if !is_able || !offer.can_start(agent.as_deref()) {
            return Err(task);
        }
        let account = worker
            .zip(agent)
            .and_then(|(worker, agent)| worker.accounts.get(&agent).cloned());
        let place = SessionScope {
            task: task.task,
            feature: task.feature,
            account: account.as_deref(),
        };
        let budget = known.budgets.get_mut(&run);
        let Some(share) = share(
            self.settings,
            facts,
            task.kind,
            budget,
            (&mut self.levels, &place),
        ) else {
            return Err(task);
        };
        if let Some(room) = task.key.as_ref().and_then(|key| known.rooms.get_mut(key)) {
            *room -= 1;
        }
        Ok(MatchedTask {
            account,
            share,
            index,
            task,
            run,
            chosen,
        })
    }
}

/// Number of further sessions that may start with the keys of the taken tasks, without the tasks matched
/// already.
async fn rooms(
    conn: &mut PgConnection,
    taken: &[(Dequeued, RunId)],
    given: &[MatchedTask],
) -> sqlx::Result<HashMap<String, i64>> {
    let keys: BTreeSet<String> = taken.iter().filter_map(|(one, _)| one.key.clone()).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let mut rooms =
        store::queue::concurrency_keys::rooms(conn, &keys.into_iter().collect::<Vec<_>>()).await?;
    for key in given.iter().filter_map(|one| one.task.key.as_ref()) {
        if let Some(room) = rooms.get_mut(key) {
            *room -= 1;
        }
    }
    Ok(rooms)
}

/// The share of all limits that a session starts with, subtracted from the rest; `None` when the rest is too
/// small now.
fn share(
    settings: &Settings,
    facts: Option<&ModelFacts>,
    kind: SessionKind,
    budget: Option<&mut Budget>,
    (levels, place): (&mut Levels, &SessionScope<'_>),
) -> Option<Share> {
    let Some(budget) = budget.filter(|_| kind.has_agent()) else {
        return Some(Share::default());
    };
    let own = facts.map(|facts| facts.used_before).unwrap_or_default();
    // Twice the usual. Otherwise a session that reports its usual usage at once would end again and again.
    let twice = |usual: Option<i64>| usual.map(|usual| usual.saturating_mul(2));
    let usual = Usual {
        microusd: twice(own.microusd.or(budget.usual.microusd)),
        tokens: twice(own.tokens.or(budget.usual.tokens)),
    };
    let follows_up = kind == SessionKind::Verify;
    let first = |purse: Purse, sessions| purse.first_share(usual, settings.first_share, sessions, follows_up);
    let shared = first(levels.shared(budget.purse, place), budget.sessions)?;
    let share = shared.least(first(levels.own(place, Share::default()), 1)?);
    budget.purse.give(share);
    levels.give(share, place);
    budget.sessions -= 1;
    Some(share)
}

/// The model of a session, and the agent that must start for it.
fn choose(
    settings: &Settings,
    rules: &[AgentRule],
    (task, facts): (TaskId, &ModelFacts),
    kind: SessionKind,
    outcomes: &HashMap<String, Vec<Outcomes>>,
) -> (Chosen, Option<String>) {
    let session = kind;
    if !session.has_agent() {
        return Default::default();
    }
    let rows = outcomes.get(&facts.repo_id).map_or(&[][..], Vec::as_slice);
    let model = choose_model(settings, (task, facts), kind, rows);
    let named = facts.agent.as_deref().filter(|agent| *agent != DEFAULT_AGENT);
    let tier = model.as_ref().map(|choice| choice.model.as_str());
    let of_tier = tier
        .and_then(|tier| settings.tiers.get(tier))
        .and_then(|tier| tier.agent.as_deref());
    let agent = named
        .or(of_tier)
        .unwrap_or_else(|| agent_for(rules, session, &facts.pool, tier));
    let chosen = Chosen {
        model,
        agent: Some(agent.to_owned()).filter(|agent| agent != DEFAULT_AGENT),
    };
    (chosen, Some(agent.to_owned()))
}

/// Past outcomes for tasks whose strategy learns from them.
async fn outcomes(
    conn: &mut PgConnection,
    facts: impl Iterator<Item = &ModelFacts>,
) -> sqlx::Result<HashMap<String, Vec<Outcomes>>> {
    let learns = facts.filter(|facts| facts.strategy == Strategy::Adaptive);
    let repositories: BTreeSet<String> = learns.map(|facts| facts.repo_id.clone()).collect();
    let repositories: Vec<String> = repositories.into_iter().collect();
    store::dispatch::outcomes::of_repositories(conn, &repositories).await
}

fn choose_model(
    settings: &Settings,
    (task, facts): (TaskId, &ModelFacts),
    kind: SessionKind,
    rows: &[Outcomes],
) -> Option<strategy::Choice> {
    let strategy = facts.strategy;
    let learned = adaptive::Facts {
        task,
        attempt: facts.attempt + 1,
        difficulty: facts.difficulty,
        failures: usize::try_from(facts.failures).unwrap_or(0),
        tries: usize::try_from(facts.retries_left + 1).unwrap_or(1),
    };
    let facts = strategy::Facts {
        run_model: facts.run_model.as_deref(),
        hint: facts.hint.as_deref().filter(|_| kind.begins_attempt()),
        task_model: facts.task_model.as_deref(),
        failures: facts.failures,
        recent: (facts.recent, facts.recent_done),
        easy_streak: facts.easy_streak,
        step: matches!(
            kind,
            SessionKind::Spec | SessionKind::Plan | SessionKind::Build | SessionKind::Review
        )
        .then_some(kind),
        first_of_given_plan: facts.plan_given && facts.iterations == 0,
        // Outcomes are known for work sessions only.
        outcomes: (kind == SessionKind::Work).then_some((learned, rows)),
    };
    strategy::choose(strategy, &settings.tiers, &facts)
}
