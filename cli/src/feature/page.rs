//! Features for people: a table, and a page for one.

use ralph_api::view::{
    FeatureView, NeedsPerson, Progress, RunView, SystemView, TaskCounts, TrainView, cost_of,
};
use ralph_domain::states::FeatureState;
use ralph_shared::agents::prices::usd_text;
use ralph_shared::terminal::{Paint, Tone, counted, tame};

use crate::cost::format;
use crate::task::page::indented;
use crate::terminal::color::tone_of;
use crate::terminal::condition;
use crate::terminal::duration::show_ms;
use crate::terminal::local_time::when;
use crate::terminal::plural::skipped_and_cancelled;
use crate::terminal::table::Table;

/// Smaller amounts are not shown. US dollars.
const CENT: f64 = 0.01;

/// Suggestion for repairing an agent.
const DOCTOR: &str = "`ralph-worker doctor` on its machine shows what is missing";

fn table(features: &[FeatureView], wide: bool) -> Table {
    // Columns beyond a width of 80 belong to the wide table.
    let mut heads = vec!["NAME", "STATUS", "DONE", "RUNNING", "COST", "TIME"];
    if wide {
        heads.extend(["ID", "FAILED", "REPOSITORY", "BRANCH", "REASON"]);
    }
    let mut table = Table::new(
        heads,
        "no features; `ralph submit feature NAME --tasks FILE` makes one",
    );
    for feature in features {
        let run = feature.run.as_ref();
        let counts = &feature.tasks;
        let mut row = vec![
            feature.name.clone(),
            condition::words(&feature.condition),
            format!(
                "{}/{}{}",
                counts.done,
                counts.total,
                skipped_and_cancelled(counts)
            ),
            counts.in_progress.to_string(),
            format::of_feature(feature),
            run.map_or_else(String::new, |run| show_ms(run.elapsed_ms)),
        ];
        if wide {
            row.extend([
                feature.id.clone(),
                counts.failed.to_string(),
                feature.repo_id.clone(),
                feature.branch.clone().unwrap_or_default(),
                run.and_then(|run| run.reason.clone()).unwrap_or_default(),
            ]);
        }
        table.row(row);
    }
    table
}

/// A repository as a link to its web page, if it has one: its identity is its host and path.
fn repository_link(id: &str, shown: &str) -> String {
    let host = id.split('/').next().unwrap_or_default();
    match host.contains('.') && id.contains('/') {
        true => Paint::stdout().link(&format!("https://{id}"), shown),
        false => shown.to_owned(),
    }
}

/// Features as a table, with a summary of those that wait for a person.
pub fn list(features: &[FeatureView], wide: bool) -> String {
    let text = table(features, wide).to_string();
    if features.is_empty() {
        return text;
    }
    let cost_usd = cost_of(features);
    let in_flight_usd = features
        .iter()
        .fold(0.0, |sum, feature| sum + feature.in_flight_usd);
    let estimated = features.iter().any(|feature| feature.estimated);
    let spent = format::spent_usd(cost_usd, in_flight_usd, estimated);
    text + &summary(NeedsPerson::of(features), &spent, None)
}

/// The table and summary of the features in a status, and of the coordinator's other features.
pub fn at_a_glance(status: &SystemView, wide: bool) -> String {
    let mut text = table(&status.features, wide).to_string();
    for feature in &status.features {
        if matches!(feature.status, FeatureState::Running | FeatureState::Paused)
            && (is_late(feature) || feature.not_before.is_some())
        {
            let order = order(feature).unwrap_or_default();
            text.push_str(&format!("{}: {order}\n", feature.name));
        }
        if let Some(gate) = feature.gate.as_ref().filter(|gate| gate.fails()) {
            let words = indented(&tame(&gate.to_string()));
            text.push_str(&format!("{}: {words}\n", feature.name));
        }
    }
    for reason in &status.held_by_limits {
        text.push_str(&format!("{}\n", tame(reason)));
    }
    if status.more_features > 0 {
        let more = status.more_features;
        text.push_str(&format!("and {more} more: `ralph feature list`\n"));
    }
    let needs_nothing = status.needs_person == NeedsPerson::default();
    if !(status.features.is_empty() && needs_nothing) {
        let cost_usd = cost_of(&status.features);
        let spent = format::spent_usd(cost_usd, status.in_flight_usd, status.estimated);
        let total_usd = Some(status.total_cost_usd).filter(|usd| usd - cost_usd >= CENT);
        text.push_str(&summary(status.needs_person, &spent, total_usd));
    }
    text
}

/// Counts of items that wait for a person, and the cost, in a line.
fn summary(needs: NeedsPerson, spent: &str, total_usd: Option<f64>) -> String {
    let mut parts = Vec::new();
    let asks = [
        (needs.tasks, "task needs you", "tasks need you"),
        (needs.features, "feature needs you", "features need you"),
    ];
    let asks: Vec<String> = asks
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, several)| counted(n, one, several))
        .collect();
    if !asks.is_empty() {
        parts.push(format!("{} (`ralph inbox`)", asks.join(", ")));
    }
    match needs.agents {
        0 => {}
        1 => parts.push(format!("1 agent needs you ({DOCTOR})")),
        n => parts.push(format!("{n} agents need you ({DOCTOR})")),
    }
    match needs.unserved {
        0 => {}
        1 => parts.push("1 task has no worker".to_owned()),
        n => parts.push(format!("{n} tasks have no worker")),
    }
    match needs.paused {
        0 => {}
        1 => parts.push("1 feature is paused".to_owned()),
        n => parts.push(format!("{n} features are paused")),
    }
    if parts.is_empty() {
        parts.push("nothing waits for you".to_owned());
    }
    parts.push(format!("{spent} so far"));
    if let Some(total_usd) = total_usd {
        parts.push(format!(
            "{} USD with all other features",
            usd_text(total_usd, false)
        ));
    }
    format!("\n{}\n", parts.join(", "))
}

/// Settings that decide a feature's precedence; `None` if all are defaults.
fn order(feature: &FeatureView) -> Option<String> {
    let ends = if feature.stop_at_deadline {
        ", when its run ends"
    } else {
        ""
    };
    let parts = [
        (feature.weight != 1).then(|| format!("weight {}", feature.weight)),
        feature.not_before.map(|at| format!("not before {}", when(at))),
        feature.deadline.map(|at| format!("deadline {}{ends}", when(at))),
        is_late(feature).then(|| "late".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn is_late(feature: &FeatureView) -> bool {
    feature.run.as_ref().is_some_and(|run| run.late)
}

/// A feature and its progress, for people.
pub fn page(progress: &Progress) -> String {
    let feature = &progress.feature;
    let paint = Paint::stdout();
    let status = paint.apply(
        condition::tone(&feature.condition),
        &condition::words(&feature.condition),
    );
    let mut lines = vec![format!("{} ({}): {status}", feature.name, feature.id)];
    lines.extend(place(feature));
    if let Some(order) = order(feature) {
        lines.push(format!("  order       {order}"));
    }
    lines.push(tasks_line(&feature.tasks));
    if let Some(run) = &feature.run {
        lines.extend(run_lines(feature, run, paint));
    }
    if let Some(gate) = &feature.gate {
        let tone = if gate.fails() { Tone::Warn } else { Tone::Dim };
        let words = indented(&tame(&gate.to_string()));
        lines.push(paint.apply(tone, &format!("  gate        {words}")));
    }
    if let Some(next) = &progress.next {
        let words = format!("  next        {}\n              {}", next.command, next.why);
        lines.push(paint.apply(Tone::Warn, &words));
    }
    for waiting in &progress.waiting {
        lines.push(paint.apply(
            Tone::Warn,
            &format!("  waiting     {}", tame(&waiting.to_string())),
        ));
    }
    for session in &progress.sessions {
        lines.push(format!(
            "  running     {} {} {} (attempt {}, {}, {})",
            session.kind,
            session.task,
            session.title,
            session.attempt,
            session.worker,
            show_ms(session.elapsed_ms)
        ));
    }
    if let Some(train) = &progress.train {
        lines.extend(train_lines(train));
    }
    for task in &progress.attention {
        let status = paint.apply(tone_of(task.status.into_str()), task.status.into_str());
        let why = indented(task.reason.as_deref().unwrap_or("no reason given"));
        let name = task.name.as_ref().unwrap_or(&task.id);
        lines.push(format!("  {status:11} {name} {}: {why}", tame(&task.title)));
        lines.extend(
            task.commands
                .iter()
                .map(|command| format!("                {command}")),
        );
    }
    lines.join("\n") + "\n"
}

/// The feature's folder, repository and branch.
fn place(feature: &FeatureView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(dir) = &feature.dir {
        lines.push(format!("  folder      {}, itself", tame(dir)));
    }
    if let (Some(repo), Some(base), Some(branch)) = (&feature.repo, &feature.base_ref, &feature.branch) {
        let (repo, base) = (repository_link(&feature.repo_id, &tame(repo)), tame(base));
        lines.push(format!("  repository  {repo}"));
        let commit: String = feature
            .base_commit
            .iter()
            .flat_map(|c| c.chars().take(12))
            .collect();
        lines.push(format!("  branch      {branch}, from {base} ({commit})"));
    }
    lines
}

fn tasks_line(counts: &TaskCounts) -> String {
    let in_need = match counts.needs_review {
        1 => "needs a person",
        _ => "need a person",
    };
    let states = [
        ("done", counts.done),
        ("running", counts.in_progress),
        ("pending", counts.pending),
        ("blocked", counts.blocked),
        ("failed", counts.failed),
        (in_need, counts.needs_review),
        ("skipped", counts.skipped),
        ("cancelled", counts.cancelled),
    ];
    let parts: Vec<String> = states
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| format!("{n} {what}"))
        .collect();
    format!("  tasks       {} in all: {}", counts.total, parts.join(", "))
}

fn run_lines(feature: &FeatureView, run: &RunView, paint: Paint) -> Vec<String> {
    let limit = run
        .limits
        .iterations
        .map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let mut lines = vec![format!(
        "  {:11} {} of {limit}, {}, {}, {}",
        run.id.split('-').next().unwrap_or("run"),
        counted(run.iterations, "iteration", "iterations"),
        format::of_run(run),
        format::tokens_of_run(run),
        show_ms(run.elapsed_ms)
    )];
    if let Some(reason) = &feature.held_by_limit {
        lines.push(format!("  waits       {}", tame(reason)));
    }
    // Earlier runs cost something.
    if feature.cost_usd > run.cost_usd {
        lines.push(format!(
            "  cost        {} with the runs before it",
            format::spent_usd(feature.cost_usd, 0.0, feature.estimated)
        ));
    }
    if let Some(outcome) = run.outcome {
        let word = paint.apply(tone_of(outcome.into_str()), outcome.into_str());
        lines.push(format!(
            "  outcome     {word}: {}",
            tame(run.reason.as_deref().unwrap_or("no reason given"))
        ));
    }
    lines
}

/// The attempts that wait to land, a line each.
fn train_lines(train: &TrainView) -> Vec<String> {
    let expected = train.expected_ms.map_or_else(String::new, |ms| {
        format!(", about {} if nothing fails", show_ms(ms))
    });
    let wasted = match train.wasted {
        0 => String::new(),
        n => format!(", {n} of {} checks for nothing", train.checks),
    };
    let mut lines = vec![format!(
        "  train       {} to land ({}){expected}{wasted}",
        counted(train.length, "attempt", "attempts"),
        train.landing
    )];
    for (n, car) in (1..).zip(&train.cars) {
        let behind = match car.behind {
            0 => String::new(),
            n => format!(", behind {n}"),
        };
        lines.push(format!(
            "    {n:>3}       {} {} {}{behind}",
            car.status.into_str(),
            car.task,
            tame(&car.title)
        ));
    }
    let shown = i64::try_from(train.cars.len()).unwrap_or(i64::MAX);
    if train.length > shown {
        lines.push(format!("              and {} more", train.length - shown));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_waiting_items_and_the_cost() {
        let check_all = |needs, expected: &str| {
            let line = summary(needs, "12.50 USD", None);
            assert_eq!(line, format!("\n{expected}, 12.50 USD so far\n"));
        };
        let check = |tasks, paused, expected: &str| {
            let needs = NeedsPerson {
                tasks,
                paused,
                ..NeedsPerson::default()
            };
            check_all(needs, expected);
        };
        let lacking = |agents, unserved| NeedsPerson {
            agents,
            unserved,
            ..NeedsPerson::default()
        };
        let doctor = "`ralph-worker doctor` on its machine shows what is missing";
        check_all(lacking(1, 0), &format!("1 agent needs you ({doctor})"));
        check_all(lacking(2, 0), &format!("2 agents need you ({doctor})"));
        check_all(lacking(0, 1), "1 task has no worker");
        check_all(lacking(0, 3), "3 tasks have no worker");
        check(0, 0, "nothing waits for you");
        check(1, 0, "1 task needs you (`ralph inbox`)");
        check(2, 1, "2 tasks need you (`ralph inbox`), 1 feature is paused");
        let features = NeedsPerson {
            tasks: 1,
            features: 2,
            ..NeedsPerson::default()
        };
        check_all(features, "1 task needs you, 2 features need you (`ralph inbox`)");
        check(0, 3, "3 features are paused");
        let line = summary(
            NeedsPerson::default(),
            "~12.50 USD + 0.50 USD in flight",
            Some(40.25),
        );
        assert_eq!(
            line,
            "\nnothing waits for you, ~12.50 USD + 0.50 USD in flight so far, 40.25 USD with all other features\n"
        );
    }
}
