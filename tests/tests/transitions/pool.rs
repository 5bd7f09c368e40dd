//! A simulated worker of one pool: it claims through the real flow step, and tests choose its answers.

use ralph_coordinator::flow::apply::{self, Incoming, ReportFate};
use ralph_coordinator::flow::{
    claim,
    workers::{heartbeat, hello},
};
use ralph_shared::ids::{DispatchId, Incarnation, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{
    AgentRule, Assignment, ClaimAnswer, ClaimRequest, DispatchUsage, End, EndReason, Ended, Finished,
    Granted, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer, IntegrationEnd, READS, Report, SessionReport,
    Snapshot, Text, Usage, WRITES, Work, WorkspaceOrder,
};
use ralph_tests::harness::World;

pub struct Pool<'a> {
    world: &'a World,
    /// The worker's incarnation, in all of its requests.
    pub incarnation: Incarnation,
    /// Agents that its slots can start now.
    pub open: Vec<String>,
    /// Its data folder's id.
    folder: &'static str,
}

impl<'a> Pool<'a> {
    pub async fn join(world: &'a World) -> Self {
        Self::join_with(world, &["default"], Vec::new()).await
    }

    /// A worker of the same name from another data folder.
    pub async fn join_from(world: &'a World, folder: &'static str) -> Self {
        let pool = Self {
            folder,
            ..Self::of(world, &["default"])
        };
        pool.say_hello(Vec::new()).await;
        pool
    }

    fn of(world: &'a World, agents: &[&str]) -> Self {
        Self {
            world,
            incarnation: Incarnation::new(),
            open: agents.iter().map(|&agent| agent.to_owned()).collect(),
            folder: "d",
        }
    }

    /// Joins with these agents, and the rules that assign them to sessions.
    pub async fn join_with(world: &'a World, agents: &[&str], rules: Vec<AgentRule>) -> Self {
        let pool = Self::of(world, agents);
        pool.say_hello(rules).await;
        pool
    }

    pub async fn say_hello(&self, rules: Vec<AgentRule>) {
        let message = Hello {
            reads: READS.to_vec(),
            worker: "w".into(),
            incarnation: self.incarnation,
            data_id: self.folder.into(),
            pools: vec!["default".into()],
            slots: 8,
            agents: self.open.clone(),
            accounts: Vec::new(),
            rules,
            spooled: vec![],
            version: "0".into(),
            host: "h".into(),
            pid: 1,
        };
        let answer = hello::hello(&self.world.db, &self.world.settings, &message)
            .await
            .unwrap();
        assert!(matches!(answer, HelloAnswer::Welcome { .. }), "{answer:?}");
    }

    /// Whether the heartbeat's answer orders a drain.
    pub async fn is_to_drain(&self) -> bool {
        match self.beaten(&[], &[]).await {
            HeartbeatAnswer::Renewed { drain, .. } => drain,
            answer => panic!("{answer:?}"),
        }
    }

    /// The reason for which a heartbeat's answer ends this session.
    pub async fn end_ordered(&self, running: &Assignment) -> Option<EndReason> {
        match self.beaten(&[running], &[]).await {
            HeartbeatAnswer::Renewed { end, .. } => end.first().map(|end| end.reason),
            answer => panic!("{answer:?}"),
        }
    }

    /// Reports the size of its cached build output.
    pub async fn keeps(&self, warm_bytes: Option<u64>) {
        let beat = Heartbeat {
            warm_bytes,
            ..self.beat_of(&[], &[])
        };
        let answer = self.answer(&beat).await;
        assert!(matches!(answer, HeartbeatAnswer::Renewed { .. }));
    }

    /// Sends a heartbeat with the running sessions, and those whose models have answered.
    pub async fn beat(&self, running: &[&Assignment], answered: &[&Assignment]) {
        let answer = self.beaten(running, answered).await;
        assert!(matches!(answer, HeartbeatAnswer::Renewed { .. }));
    }

    /// Reports the usage of sessions; returns their new shares and the sessions that have to end.
    pub async fn tells(&self, used: &[DispatchUsage]) -> (Vec<Granted>, Vec<End>) {
        let beat = Heartbeat {
            running: used.iter().map(|one| one.dispatch).collect(),
            used: used.to_vec(),
            transcripts: Vec::new(),
            heard: Vec::new(),
            ..self.beat_of(&[], &[])
        };
        match self.answer(&beat).await {
            HeartbeatAnswer::Renewed { shares, end, .. } => (shares, end),
            answer => panic!("{answer:?}"),
        }
    }

    async fn beaten(&self, running: &[&Assignment], answered: &[&Assignment]) -> HeartbeatAnswer {
        self.answer(&self.beat_of(running, answered)).await
    }

    async fn answer(&self, beat: &Heartbeat) -> HeartbeatAnswer {
        heartbeat::heartbeat(&self.world.db, &self.world.settings, beat)
            .await
            .unwrap()
    }

    fn beat_of(&self, running: &[&Assignment], answered: &[&Assignment]) -> Heartbeat {
        let ids = |of: &[&Assignment]| of.iter().map(|one| one.dispatch).collect();
        Heartbeat {
            reads: READS.to_vec(),
            worker: "w".into(),
            incarnation: self.incarnation,
            running: ids(running),
            spooled: Vec::new(),
            free_slots: 0,
            draining: false,
            doors: Vec::new(),
            answered: ids(answered),
            used: Vec::new(),
            transcripts: Vec::new(),
            heard: Vec::new(),
            warm_bytes: None,
        }
    }

    /// Claims once, for one slot for each of these lists of pools.
    pub async fn claim_once<P: AsRef<[&'static str]>>(&self, slots: &[P]) -> Vec<Assignment> {
        claim::claim(&self.world.db, &self.world.settings, &self.requests(slots))
            .await
            .unwrap()
            .into_iter()
            .filter_map(|answer| match answer {
                ClaimAnswer::Assigned { assignment } => Some(*assignment),
                _ => None,
            })
            .collect()
    }

    pub fn requests<P: AsRef<[&'static str]>>(&self, slots: &[P]) -> Vec<ClaimRequest> {
        slots
            .iter()
            .map(|pools| ClaimRequest {
                reads: READS.to_vec(),
                worker: "w".into(),
                incarnation: self.incarnation,
                claim: DispatchId::new(),
                pools: pools.as_ref().iter().map(|pool| (*pool).to_owned()).collect(),
                agents: self.open.clone(),
                wait_ms: 0,
                checks: true,
            })
            .collect()
    }

    pub async fn claim(&self, slots: usize) -> Vec<Assignment> {
        let claims = self.requests(&vec![["default"]; slots]);
        let answers = claim::claim(&self.world.db, &self.world.settings, &claims)
            .await
            .unwrap();
        // The same claim again gets the same answer.
        let again = claim::claim(&self.world.db, &self.world.settings, &claims)
            .await
            .unwrap();
        let mut assigned = Vec::new();
        for (answer, again) in answers.into_iter().zip(again) {
            match (answer, again) {
                (ClaimAnswer::Assigned { assignment }, ClaimAnswer::Assigned { assignment: same }) => {
                    assert_eq!((same.dispatch, same.task), (assignment.dispatch, assignment.task));
                    assigned.push(*assignment);
                }
                // A task became ready in between.
                (ClaimAnswer::Nothing, ClaimAnswer::Assigned { assignment }) => assigned.push(*assignment),
                (ClaimAnswer::Nothing, ClaimAnswer::Nothing) => {}
                (first, second) => panic!("the claim got {first:?}, and the second time {second:?}"),
            }
        }
        assigned
    }

    /// Claims under these ids in one batch; returns the dispatch and task of each.
    pub async fn claim_all_as(&self, ids: &[DispatchId]) -> Vec<Option<(DispatchId, TaskId)>> {
        let mut claims = self.requests(&vec![["default"]; ids.len()]);
        for (claim, id) in claims.iter_mut().zip(ids) {
            claim.claim = *id;
        }
        let answers = claim::claim(&self.world.db, &self.world.settings, &claims).await;
        let given = answers.unwrap().into_iter().map(|answer| match answer {
            ClaimAnswer::Assigned { assignment } => Some((assignment.dispatch, assignment.task)),
            _ => None,
        });
        given.collect()
    }

    /// Claims one task under this id.
    pub async fn claim_as(&self, id: DispatchId) -> Option<Assignment> {
        let mut claims = self.requests(&[["default"]]);
        claims[0].claim = id;
        let answers = claim::claim(&self.world.db, &self.world.settings, &claims).await;
        match answers.unwrap().remove(0) {
            ClaimAnswer::Assigned { assignment } => Some(*assignment),
            _ => None,
        }
    }

    pub async fn report(&self, reports: Vec<Incoming>) -> Vec<ReportFate> {
        apply::apply(&self.world.db, &self.world.settings, &reports)
            .await
            .unwrap()
            .0
    }

    pub fn session(&self, to: &Assignment, ended: Ended, text: &str, changes: u64) -> Incoming {
        let pushed_ref = match &to.workspace {
            WorkspaceOrder::Git(git) => Some(git.attempt_ref.clone()),
            WorkspaceOrder::Scratch | WorkspaceOrder::Dir(_) => None,
        };
        let commit = pushed_ref
            .as_ref()
            .map(|_| format!("{:040x}", to.dispatch.0.as_u128() >> 8));
        let finished = Finished::Session(Box::new(SessionReport {
            text: Text::Inline(text.to_owned()),
            tool_calls: 1,
            usage: Usage {
                output_tokens: Some(7),
                cost_usd: Some(0.125),
                ..Usage::default()
            },
            snapshot: Snapshot {
                commit,
                pushed_ref,
                files_changed_count: changes,
                ..Snapshot::default()
            },
            ..SessionReport::new(ended)
        }));
        Incoming::new(self.report_of(to, finished), text.to_owned())
    }

    /// Marks the session's work as not pushed.
    pub fn unpushed(incoming: &mut Incoming) {
        if let Finished::Session(session) = &mut incoming.report.finished {
            session.snapshot.pushed_ref = None;
            session.snapshot.push_error = Some("the server could not be reached".into());
        }
    }

    /// Commit and ref that a session's report names.
    pub fn pushed_by(of: &Assignment) -> (Option<String>, Option<String>) {
        let WorkspaceOrder::Git(git) = &of.workspace else {
            return (None, None);
        };
        let commit = format!("{:040x}", of.dispatch.0.as_u128() >> 8);
        (Some(commit), Some(git.attempt_ref.clone()))
    }

    pub fn integration(&self, to: &Assignment, end: IntegrationEnd) -> Incoming {
        let finished = Finished::Integration(end.into());
        Incoming::new(self.report_of(to, finished), String::new())
    }

    fn report_of(&self, to: &Assignment, finished: Finished) -> Report {
        Report {
            v: WRITES,
            dispatch: to.dispatch,
            worker: "w".into(),
            incarnation: self.incarnation,
            duration_ms: 5,
            finished,
        }
    }

    pub fn is_check(of: &Assignment) -> bool {
        of.kind == SessionKind::Check
    }

    pub fn is_integration(of: &Assignment) -> bool {
        matches!(of.work, Work::Integrate(_))
    }
}
