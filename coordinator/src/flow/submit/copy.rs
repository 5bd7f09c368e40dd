//! Copies a feature as it was submitted and runs the copy, for schedules and hooks.

use jiff::tz::TimeZone;
use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use time::OffsetDateTime;

use crate::domain::graph::{self, Graph, GraphFile, Limits};
use crate::domain::names;
use crate::domain::run::RunSettings;
use crate::domain::scheduling::schedule::stamp;
use crate::flow::Signals;
use crate::flow::submit::provided::ProvidedResults;
use crate::store;
use crate::{
    domain::run::defaults::TaskDefaults,
    flow::submit::{self, Start, Submission, Submitted},
};

/// Most copies with names of their own that start in one minute.
const SAME_MINUTE: u32 = 100;

/// Run settings of a feature: those of its last run, or of its submission.
pub(in crate::flow) async fn settings(
    conn: &mut PgConnection,
    feature: FeatureId,
) -> sqlx::Result<RunSettings> {
    if let Some(last) = store::run::last(conn, feature).await? {
        return Ok(last.settings);
    }
    let first = submit::first_run(conn, feature).await?;
    Ok(first.unwrap_or_default())
}

/// Makes a copy named after this time, and starts its run. The inner error says why it cannot.
pub async fn copy(
    conn: &mut PgConnection,
    original: FeatureId,
    at: OffsetDateTime,
    zone: &TimeZone,
    signals: &mut Signals,
) -> sqlx::Result<Result<FeatureId, String>> {
    let Some((mut feature, tasks)) = store::feature::original::read(conn, original).await? else {
        return Ok(Err("the feature was deleted".to_owned()));
    };
    let graph = match graph_of(tasks) {
        Ok(graph) => graph,
        Err(why) => return Ok(Err(why)),
    };
    let (_, defaults) = store::feature::draft(conn, original).await?;
    let defaults = defaults.and_then(|defaults| serde_json::from_value::<TaskDefaults>(defaults).ok());
    let settings = settings(conn, original).await?;
    let base = format!("{}-{}", feature.name, stamp(at, zone));
    feature.branch = feature.branch.map(|_| names::branch(&base));
    let mut submission = Submission {
        feature,
        graph,
        defaults: defaults.unwrap_or_default(),
        limits: store::budget::of_feature(conn, original).await?,
        start: Start::Now(settings),
    };
    for n in 1..=SAME_MINUTE {
        let name = match n {
            1 => base.clone(),
            n => format!("{base}-{n}"),
        };
        if let Err(error) = names::check(&name) {
            return Ok(Err(error.to_string()));
        }
        submission.feature.branch = submission.feature.branch.map(|_| names::branch(&name));
        submission.feature.name = name;
        match submit::within(conn, &submission, &ProvidedResults::default(), signals).await? {
            Submitted::Accepted { .. } => return Ok(Ok(submission.feature.id)),
            Submitted::NameTaken => {}
            Submitted::BranchTaken(why) => return Ok(Err(why)),
        }
    }
    Ok(Err(format!("there are already features named `{base}`")))
}

fn graph_of(tasks: Vec<graph::TaskEntry>) -> Result<Graph, String> {
    let source_name = "the feature".to_owned();
    if tasks.is_empty() {
        return Ok(Graph {
            nodes: Vec::new(),
            edges: 0,
            warnings: Vec::new(),
            source_name,
        });
    }
    let file = GraphFile {
        tasks,
        source_name,
        warnings: Vec::new(),
    };
    graph::validate(file, &Limits::file()).map_err(|errors| errors.to_string())
}
