//! A new connection goes through the way of a task once, and takes it all back: so the statements of claims and reports are planned
//! before somebody waits for them. Planning them takes a hundred times what running them takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use ralph_shared::ids::{DispatchId, Incarnation, TaskId};
use ralph_shared::wire::{
    ClaimRequest, DEFAULT_AGENT, Ended, Finished, Hello, READS, Report, SessionReport, WRITES,
};
use sqlx::{Connection as _, PgConnection};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;
use uuid::Uuid;

use super::apply::{self, Incoming};
use super::claim::Opened;
use super::given::Given;
use super::submit::{self, Start, Submission, Submitted, TaskDefaults};
use super::{Sent, Settings, Signals, context, hand};
use crate::domain::graph::{self, Limits};
use crate::domain::run::RunSettings;
use crate::domain::strategy::Strategy;
use crate::store;
use crate::store::feature::NewFeature;

/// Two tasks, so that the second one finds what the first one freed and learned.
const GRAPH: &str = r#"{"tasks": [{"key": "a", "title": "Read the table"}, {"key": "b", "title": "Read the table again", "after": ["a"]}]}"#;

/// Rehearses in a transaction that is rolled back. Everything in it has names of its own, so it neither sees what others do nor waits
/// for them, and takes no lock that they wait for. One that fails leaves the connection as it was, not planned.
///
/// # Errors
/// When the connection itself fails.
pub async fn rehearse(conn: &mut PgConnection, settings: &Settings) -> sqlx::Result<()> {
    // It asks no outside model, and what it reads is nobody else's.
    let settings = Settings {
        embedder: None,
        tail: Arc::default(),
        ..settings.clone()
    };
    let mut tx = conn.begin().await?;
    // What it would tell hasn't happened.
    let played = play(&mut tx, &settings)
        .with_subscriber(NoSubscriber::default())
        .await;
    tx.rollback().await?;
    if let Err(error) = played {
        tracing::debug!(%error, "a new connection is used without a rehearsal");
    }
    Ok(())
}

async fn play(tx: &mut PgConnection, settings: &Settings) -> sqlx::Result<()> {
    let name = format!("rehearsal-{}", &Uuid::new_v4().simple().to_string()[..16]);
    let mut signals = Signals::default();
    let submitted = submit::within(tx, &submission(&name)?, &Given::default(), &mut signals).await?;
    let Submitted::Accepted { ids, .. } = submitted else {
        return Ok(());
    };
    let worker = Hello {
        reads: READS.to_vec(),
        worker: name.clone(),
        incarnation: Incarnation::new(),
        data_id: name.clone(),
        pools: vec![name.clone()],
        slots: 1,
        agents: vec![DEFAULT_AGENT.to_owned()],
        accounts: Vec::new(),
        rules: Vec::new(),
        spooled: Vec::new(),
        version: String::new(),
        host: String::new(),
        pid: 0,
    };
    store::worker::take_name(tx, &worker).await?;
    for _ in ids {
        let claims = [ClaimRequest {
            reads: READS.to_vec(),
            worker: name.clone(),
            incarnation: worker.incarnation,
            claim: DispatchId::new(),
            pools: vec![name.clone()],
            agents: vec![DEFAULT_AGENT.to_owned()],
            is_new: false,
            wait_ms: 0,
            checks: true,
        }];
        let known = hand::known_workers(tx, &claims).await?;
        let dealt = hand::deal_out(tx, settings, &claims, known, hand::Look::Later).await?;
        let (_, opened) = dealt.open(tx, settings, &claims).await?.unwrap_or_default();
        for (_, opened) in &opened {
            sent(tx, settings, opened).await?;
            let reports = [report(&worker, opened)];
            apply::within(tx, None, settings, &reports, apply::Memory::Kept, &mut signals).await?;
            store::postings::fresh(tx, &settings.tail).await?;
        }
    }
    Ok(())
}

/// What a claim reads and keeps for its prompt.
async fn sent(tx: &mut PgConnection, settings: &Settings, opened: &Opened) -> sqlx::Result<()> {
    let Some((rendered, uses)) = context::render_one(tx, settings, opened).await? else {
        return Ok(());
    };
    let row = Uuid::now_v7();
    // The frame that others keep at the same time would have them wait.
    let frame = row.to_string();
    let body = store::prompt::Sent {
        frame: frame.clone(),
        body: rendered.prompt.body.clone(),
        sections: context::sections(&rendered.account),
    };
    let sent = Sent {
        prompts: BTreeMap::from([(row, BTreeMap::from([(opened.dispatch.0, body)]))]),
        frames: BTreeMap::from([(frame.clone(), frame)]),
        uses,
        trials: Vec::new(),
    };
    sent.within(tx).await
}

fn submission(name: &str) -> sqlx::Result<Submission> {
    let graph = graph::load("rehearsal", GRAPH, &Limits::file())
        .map_err(|problems| sqlx::Error::Protocol(problems.to_string()))?;
    Ok(Submission {
        feature: NewFeature::new(name.to_owned(), name.to_owned()),
        graph,
        defaults: TaskDefaults {
            pool: name.to_owned(),
            verify: false,
            ..TaskDefaults::default()
        },
        start: Start::Now(RunSettings {
            model_strategy: Strategy::Fixed,
            ..RunSettings::default()
        }),
    })
}

/// A report of a session that did its task and learned something.
fn report(worker: &Hello, opened: &Opened) -> Incoming {
    let session = SessionReport::new(Ended::Turn {
        stop_reason: "end_turn".to_owned(),
    });
    let report = Report {
        v: WRITES,
        dispatch: opened.dispatch,
        worker: worker.worker.clone(),
        incarnation: worker.incarnation,
        duration_ms: 0,
        finished: Finished::Session(Box::new(session)),
    };
    Incoming::new(report, said(opened.task))
}

fn said(task: TaskId) -> String {
    format!(
        "<journal>Read the table.</journal>\n\
         <learning category=\"pitfall\" tags=\"table\">The table is read row by row.</learning>\n\
         <task-done>{task}</task-done>\n"
    )
}
