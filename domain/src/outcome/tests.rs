//! Judgements as a table.

use super::*;

const ID: &str = "t-9f2c41aa07be";

fn check(kind: SessionKind, ended: Ended, text: &str, facts: AttemptFacts, outcome: Outcome, step: Step) {
    let context = ralph_shared::sigil::Context {
        kind,
        task_id: ID,
        model_tiers: &[],
    };
    let sigils = ralph_shared::sigil::parse(text, &context);
    let got = session(kind, &ended, &sigils, facts);
    assert_eq!(
        (got.outcome, got.step),
        (outcome, step),
        "{kind} {ended:?} {text}: {:?}",
        got.reason
    );
}

fn turn(stop_reason: &str) -> Ended {
    Ended::Turn {
        stop_reason: stop_reason.into(),
    }
}

#[test]
fn work_sessions() {
    use SessionKind::Work;
    let done = format!("<task-done>{ID}</task-done>");
    let failed = format!("<task-failed>{ID}</task-failed>");
    let plain = AttemptFacts {
        needs_push: true,
        pushed: true,
        ..Default::default()
    };
    let verify = AttemptFacts {
        verify: true,
        ..plain
    };
    check(Work, turn("end_turn"), &done, plain, Outcome::Done, Step::Land);
    check(Work, turn("end_turn"), &done, verify, Outcome::Done, Step::Verify);
    check(
        Work,
        turn("end_turn"),
        &(failed.clone() + &done),
        plain,
        Outcome::Done,
        Step::Land,
    );
    check(
        Work,
        turn("end_turn"),
        &failed,
        verify,
        Outcome::Failed,
        Step::Retry,
    );
    check(
        Work,
        turn("end_turn"),
        "I think so",
        plain,
        Outcome::NoSigil,
        Step::Retry,
    );
    check(
        Work,
        turn("end_turn"),
        "<task-done>t-000000000000</task-done>",
        plain,
        Outcome::NoSigil,
        Step::Retry,
    );
    let unpushed = AttemptFacts {
        pushed: false,
        ..plain
    };
    check(
        Work,
        turn("end_turn"),
        &done,
        unpushed,
        Outcome::Error,
        Step::Retry,
    );
    check(
        Work,
        turn("max_tokens"),
        &done,
        plain,
        Outcome::NoSigil,
        Step::Retry,
    );
    check(Work, turn("refusal"), &done, plain, Outcome::Failed, Step::Retry);
    check(Work, turn("later"), &done, plain, Outcome::Error, Step::Retry);
    let told = |reason| Ended::Told { reason };
    check(
        Work,
        told(EndReason::Drain),
        &done,
        plain,
        Outcome::Interrupted,
        Step::Retry,
    );
    check(
        Work,
        told(EndReason::Fenced),
        &done,
        plain,
        Outcome::Lost,
        Step::Retry,
    );
    for (reason, death) in [
        (EndReason::DiedAlone, Failure::WorkerDied),
        (EndReason::DiedWithOthers, Failure::WorkersDied),
    ] {
        check(Work, told(reason), &done, plain, Outcome::Lost, Step::Retry);
        check(
            SessionKind::Verify,
            told(reason),
            &done,
            plain,
            Outcome::Lost,
            Step::Repeat,
        );
        let judged = session(
            Work,
            &told(reason),
            &ralph_shared::sigil::Sigils::default(),
            AttemptFacts::default(),
        );
        assert_eq!(judged.failure, Some(death));
    }
    check(
        Work,
        Ended::AgentExited {
            code: Some(101),
            signal: None,
        },
        &done,
        plain,
        Outcome::Error,
        Step::Retry,
    );
    let door = Ended::Unavailable {
        door: ralph_shared::wire::Unavailable::NotFound,
        message: "no such file".into(),
    };
    check(Work, door, "", plain, Outcome::Unavailable, Step::Retry);
}

#[test]
fn sessions_that_write_a_text_or_a_graph() {
    let wrote = AttemptFacts {
        wrote: true,
        ..AttemptFacts::default()
    };
    let nothing = AttemptFacts::default();
    for kind in [SessionKind::Spec, SessionKind::Plan] {
        check(kind, turn("end_turn"), "# It", wrote, Outcome::Done, Step::Wrote);
        check(kind, turn("end_turn"), "", nothing, Outcome::NoSigil, Step::Retry);
        check(
            kind,
            turn("max_tokens"),
            "# It",
            wrote,
            Outcome::NoSigil,
            Step::Retry,
        );
    }
    let graph = "<task-graph>[{key: a, title: A}]</task-graph>";
    use SessionKind::Build;
    check(
        Build,
        turn("end_turn"),
        graph,
        nothing,
        Outcome::Done,
        Step::Landed,
    );
    check(
        Build,
        turn("end_turn"),
        "later",
        nothing,
        Outcome::NoSigil,
        Step::Retry,
    );
}

#[test]
fn sessions_that_merge_learnings() {
    use SessionKind::Distill;
    let nothing = AttemptFacts::default();
    let merged = "<learning category='other' tags='a'>b</learning>";
    for text in [merged, "nothing to merge"] {
        check(
            Distill,
            turn("end_turn"),
            text,
            nothing,
            Outcome::Done,
            Step::Landed,
        );
    }
    check(
        Distill,
        turn("max_tokens"),
        "",
        nothing,
        Outcome::NoSigil,
        Step::Retry,
    );
}

#[test]
fn review_sessions() {
    use SessionKind::Review;
    let (pass, changes) = ("<review-pass/>", "<review-changes>name it</review-changes>");
    let nothing = AttemptFacts::default();
    let corrected = AttemptFacts {
        changed: true,
        needs_push: true,
        pushed: true,
        verify: true,
        ..nothing
    };
    let unpushed = AttemptFacts {
        pushed: false,
        ..corrected
    };
    for text in [pass, changes] {
        check(
            Review,
            turn("end_turn"),
            text,
            nothing,
            Outcome::Done,
            Step::Landed,
        );
        check(
            Review,
            turn("end_turn"),
            text,
            corrected,
            Outcome::Done,
            Step::Verify,
        );
        check(
            Review,
            turn("end_turn"),
            text,
            unpushed,
            Outcome::Error,
            Step::Retry,
        );
    }
    check(
        Review,
        turn("end_turn"),
        "fine",
        nothing,
        Outcome::NoSigil,
        Step::Retry,
    );
}

#[test]
fn verify_sessions() {
    use SessionKind::Verify;
    let first = AttemptFacts::default();
    let second = AttemptFacts {
        verify_tries: 1,
        ..first
    };
    check(
        Verify,
        turn("end_turn"),
        "<verify-pass/>",
        first,
        Outcome::Passed,
        Step::Land,
    );
    check(
        Verify,
        turn("end_turn"),
        "<verify-fail>no test</verify-fail>",
        first,
        Outcome::Failed,
        Step::Retry,
    );
    check(
        Verify,
        turn("end_turn"),
        "<verify-pass/><verify-fail>no test</verify-fail>",
        first,
        Outcome::Failed,
        Step::Retry,
    );
    check(
        Verify,
        turn("end_turn"),
        "fine",
        first,
        Outcome::NoSigil,
        Step::Repeat,
    );
    check(
        Verify,
        turn("end_turn"),
        "fine",
        second,
        Outcome::Failed,
        Step::Retry,
    );
    check(
        Verify,
        turn("max_tokens"),
        "",
        first,
        Outcome::NoSigil,
        Step::Repeat,
    );
    let drained = Ended::Told {
        reason: EndReason::Drain,
    };
    check(Verify, drained, "", second, Outcome::Interrupted, Step::Repeat);
}

#[test]
fn a_failure_promise_beside_done_lands_the_task_and_ends_the_run() {
    let context = ralph_shared::sigil::Context {
        kind: SessionKind::Work,
        task_id: ID,
        model_tiers: &[],
    };
    let text = format!("<task-done>{ID}</task-done><promise>FAILURE</promise>");
    let sigils = ralph_shared::sigil::parse(&text, &context);
    let got = session(
        SessionKind::Work,
        &turn("end_turn"),
        &sigils,
        AttemptFacts::default(),
    );
    assert_eq!(
        (got.outcome, got.step, got.run_failed),
        (Outcome::Done, Step::Land, true)
    );
}

#[test]
fn integrations() {
    let step = |end, tries| {
        let facts = IntegrationFacts {
            tries,
            ..IntegrationFacts::default()
        };
        let judged = integration(&end, facts);
        (judged.outcome, judged.step)
    };
    let failed = |retry| IntegrationEnd::Failed {
        message: "declined".into(),
        retry,
        away: false,
    };
    assert_eq!(
        step(
            IntegrationEnd::Merged {
                commit: "c".into(),
                empty: false
            },
            1
        ),
        (Outcome::Merged, Step::Landed)
    );
    assert_eq!(
        step(
            IntegrationEnd::Void {
                reason: "gone".into()
            },
            1
        ),
        (Outcome::Void, Step::Repeat)
    );
    let rewritten = || IntegrationEnd::Rewritten {
        commit: "c".into(),
        commit_ref: "refs/heads/r".into(),
    };
    assert_eq!(step(rewritten(), 1), (Outcome::Void, Step::Verify));
    assert_eq!(
        step(rewritten(), MAX_INTEGRATION_TRIES),
        (Outcome::Error, Step::Retry)
    );
    let decided = IntegrationFacts {
        tries: 1,
        is_decided: true,
        ..IntegrationFacts::default()
    };
    let decided = integration(&rewritten(), decided);
    assert_eq!((decided.outcome, decided.step), (Outcome::Error, Step::Repeat));
    assert_eq!(operation(&rewritten()).step, Step::Retry);
    assert_eq!(step(failed(true), 1), (Outcome::Error, Step::Repeat));
    assert_eq!(
        step(failed(true), MAX_INTEGRATION_TRIES),
        (Outcome::Error, Step::Retry)
    );
    assert_eq!(step(failed(false), 1), (Outcome::Error, Step::Retry));
}

#[test]
fn an_unreachable_server_is_no_failure_and_no_verdict() {
    let away = |away| Ended::Workspace {
        message: "gone".into(),
        away,
    };
    let tried = AttemptFacts {
        verify_tries: 1,
        ..Default::default()
    };
    check(
        SessionKind::Verify,
        away(true),
        "",
        tried,
        Outcome::Unavailable,
        Step::Repeat,
    );
    check(
        SessionKind::Verify,
        away(false),
        "",
        tried,
        Outcome::Failed,
        Step::Retry,
    );
    let context = ralph_shared::sigil::Context {
        kind: SessionKind::Work,
        task_id: ID,
        model_tiers: &[],
    };
    let sigils = ralph_shared::sigil::parse("", &context);
    for (is_away, outcome, failure) in [
        (true, Outcome::Unavailable, Failure::Away),
        (false, Outcome::Error, Failure::Workspace),
    ] {
        let judged = session(SessionKind::Work, &away(is_away), &sigils, tried);
        assert_eq!((judged.outcome, judged.failure), (outcome, Some(failure)));
    }
}

#[test]
fn a_branch_operation_that_may_succeed_elsewhere_is_retried() {
    let failed = |retry, away| IntegrationEnd::Failed {
        message: "gone".into(),
        retry,
        away,
    };
    for (retry, away) in [(true, true), (true, false), (false, true)] {
        let judged = operation(&failed(retry, away));
        assert_eq!(
            (judged.step, judged.is_away()),
            (Step::Retry, true),
            "{retry} {away}"
        );
    }
    let judged = operation(&failed(false, false));
    assert_eq!((judged.step, judged.is_away()), (Step::Ask, false));
}

#[test]
fn an_integration_waits_a_bounded_time_for_its_repository() {
    for (retry, most, minutes) in [(true, MAX_AWAY_TRIES, 45..55), (false, MAX_REFUSED_TRIES, 2..5)] {
        let end = IntegrationEnd::Failed {
            message: "gone".into(),
            retry,
            away: true,
        };
        let mut waited = std::time::Duration::ZERO;
        for away in 0..most {
            let facts = IntegrationFacts {
                // Tries for other reasons do not count.
                tries: MAX_INTEGRATION_TRIES,
                away,
                is_decided: false,
            };
            let judged = integration(&end, facts);
            let step = if away + 1 < most {
                Step::Repeat
            } else {
                Step::Retry
            };
            assert_eq!((judged.step, judged.is_away()), (step, true), "{retry} {away}");
            waited += crate::failure::retry::pause(away);
        }
        assert!(minutes.contains(&(waited.as_secs() / 60)), "{waited:?}");
    }
}
