//! Dispatches that change branches: an integration, or a git operation requested by a person or the feature's
//! end.

use std::sync::Arc;
use std::time::Duration;

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{
    Assignment, DecideAnswer, DecideRequest, Decided, EndReason, Finished, GitOperationOrder, GitOrder,
    IntegrateOrder, IntegrationEnd, WorkspaceOrder,
};
use tokio::sync::watch;

use super::folder;
use crate::instance::Instance;
use crate::workspace::Decision;

/// How often to request a decision before it is left to the worker that resumes it.
const DECIDE_TRIES: u32 = 12;
/// Pause between two requests.
const DECIDE_PAUSE: Duration = Duration::from_millis(500);

type End = watch::Receiver<Option<EndReason>>;

pub(in crate::dispatch) async fn integrate(
    instance: &Arc<Instance>,
    assignment: &Assignment,
    order: &IntegrateOrder,
    end: End,
) -> Finished {
    let Some(git) = repository(assignment) else {
        return without_repository();
    };
    let dispatch = assignment.dispatch;
    let report = instance
        .workspaces
        .integrate(&folder(dispatch), git, order, decider(instance, dispatch), end)
        .await;
    Finished::Integration(report)
}

pub(in crate::dispatch) async fn operate(
    instance: &Arc<Instance>,
    assignment: &Assignment,
    order: &GitOperationOrder,
    end: End,
) -> Finished {
    let Some(git) = repository(assignment) else {
        return without_repository();
    };
    let dispatch = assignment.dispatch;
    let report = instance
        .workspaces
        .operate(&folder(dispatch), git, order, decider(instance, dispatch), end)
        .await;
    Finished::Integration(report)
}

fn repository(assignment: &Assignment) -> Option<&GitOrder> {
    match &assignment.workspace {
        WorkspaceOrder::Git(git) => Some(git),
        WorkspaceOrder::Scratch | WorkspaceOrder::Dir(_) => None,
    }
}

fn without_repository() -> Finished {
    let message = "changing a branch needs a repository".to_owned();
    let end = IntegrationEnd::Failed {
        message,
        retry: false,
        away: false,
    };
    Finished::Integration(end.into())
}

/// Asks the coordinator about each push of a dispatch.
fn decider(
    instance: &Arc<Instance>,
    dispatch: DispatchId,
) -> impl Fn(Decided) -> futures::future::BoxFuture<'static, Decision> + Send + Sync {
    let instance = instance.clone();
    move |decided| {
        let instance = instance.clone();
        Box::pin(async move { request_decision(&instance, dispatch, &decided).await })
    }
}

/// Requests the decision on a push until there is one. Without contact to the coordinator nothing is
/// integrated.
async fn request_decision(instance: &Instance, dispatch: DispatchId, decided: &Decided) -> Decision {
    let request = DecideRequest {
        dispatch,
        incarnation: instance.incarnation,
        old: decided.old.clone(),
        new: decided.new.clone(),
    };
    let mut last = String::new();
    for _ in 0..DECIDE_TRIES {
        match instance.broker.decide(&request).await {
            Ok(DecideAnswer::Decided) => return Decision::Push,
            Ok(DecideAnswer::Refused { reason }) => return Decision::Refused { reason },
            Ok(DecideAnswer::Failed { reason }) => last = reason,
            Err(error) => last = format!("{error:#}"),
        }
        tokio::time::sleep(DECIDE_PAUSE).await;
    }
    Decision::Unanswered { reason: last }
}
