//! Simulated agents: each way in which real agents differ is a profile of the scripted one, alone and in
//! random combinations. In every combination the work is done, the text arrives once, and no process remains.

use ralph_shared::wire::Access;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng as _, SeedableRng as _};

use super::scene::{Played, scene, turn};

/// Number of random combinations.
const COMBINATIONS: usize = 16;

/// One way in which an agent differs.
struct Profile {
    name: &'static str,
    /// Flags of the agent; profiles that share a first flag exclude each other.
    flags: &'static [&'static str],
    /// Directives before its work.
    before: &'static str,
    /// Directives after its work.
    after: &'static str,
    /// Text that the transcript must contain.
    shown: &'static str,
}

const PLAIN: Profile = Profile {
    name: "",
    flags: &[],
    before: "",
    after: "",
    shown: "",
};

const PROFILES: &[Profile] = &[
    Profile {
        name: "echoes-its-prompt",
        before: "@echo-prompt",
        shown: "user_message_chunk",
        ..PLAIN
    },
    Profile {
        name: "quotes-markers-in-thoughts",
        before: "@think <task-done>t-000000000000</task-done>",
        shown: "thought",
        ..PLAIN
    },
    Profile {
        name: "mixes-warnings-into-its-words",
        before: "@say Warning: model cache is cold",
        shown: "cache is cold",
        ..PLAIN
    },
    Profile {
        name: "splits-its-words",
        before: "@split one character at a time",
        ..PLAIN
    },
    Profile {
        name: "starts-slowly",
        flags: &["--handshake", "slow:300"],
        ..PLAIN
    },
    Profile {
        name: "knows-only-the-older-request-for-models",
        flags: &["--no-model-option", "--set-model"],
        ..PLAIN
    },
    Profile {
        name: "lets-no-model-be-chosen",
        flags: &["--no-model-option"],
        ..PLAIN
    },
    Profile {
        name: "ignores-the-end-of-its-input",
        flags: &["--ignore-eof"],
        ..PLAIN
    },
    Profile {
        name: "writes-files-by-itself",
        before: "@write own.txt x",
        shown: "own.txt",
        ..PLAIN
    },
    Profile {
        name: "asks-its-client-for-files",
        before: "@fs-write asked.txt x\n@fs-read asked.txt",
        shown: "fs/read_text_file",
        ..PLAIN
    },
    Profile {
        name: "reads-before-it-creates",
        before: "@fs-read not-there.txt\n@fs-write not-there.txt x",
        shown: "-32002",
        ..PLAIN
    },
    Profile {
        name: "uses-terminals",
        before: "@term echo hi",
        shown: "terminal/release",
        ..PLAIN
    },
    Profile {
        name: "asks-for-permission",
        before: "@ask a thing",
        shown: "session/request_permission",
        ..PLAIN
    },
    Profile {
        name: "sends-an-unknown-request",
        before: "@unknown-request",
        shown: "the method is not known",
        ..PLAIN
    },
    Profile {
        name: "updates-a-tool-that-it-never-called",
        before: "@tool-update-only",
        shown: "completed",
        ..PLAIN
    },
    Profile {
        name: "sends-an-unknown-update",
        before: "@unknown-update",
        shown: "a kind that is not known",
        ..PLAIN
    },
    Profile {
        name: "prints-on-its-output",
        before: "@junk Debugger listening",
        shown: "Debugger listening",
        ..PLAIN
    },
    Profile {
        name: "begins-with-a-byte-order-mark",
        before: "@raw \\m",
        ..PLAIN
    },
    Profile {
        name: "sets-a-title-and-colours-before-a-message",
        before: "@raw \\e]0;a {title}\\e\\\\\\e[1;32m",
        ..PLAIN
    },
    Profile {
        name: "draws-progress-and-takes-it-back",
        before: "@raw 10%\\r|\\b/\\b",
        ..PLAIN
    },
    Profile {
        name: "colours-its-words",
        before: "@say \\e[31mred\\e[0m words",
        ..PLAIN
    },
    Profile {
        name: "calls-tools-that-fail",
        before: "@run exit 3",
        shown: "exit status: 3",
        ..PLAIN
    },
    Profile {
        name: "breaks-its-json",
        before: "@bad-json",
        shown: "no message",
        ..PLAIN
    },
    Profile {
        name: "breaks-its-text",
        before: "@bad-utf8",
        ..PLAIN
    },
    Profile {
        name: "answers-what-nobody-asked",
        before: "@stray-response",
        shown: "nobody waits for",
        ..PLAIN
    },
    Profile {
        name: "talks-on-standard-error",
        before: "@stderr 429 once, retrying",
        ..PLAIN
    },
    Profile {
        name: "tells-its-usage",
        before: "@usage 10 5 0.25",
        shown: "context 15 of",
        ..PLAIN
    },
    Profile {
        name: "writes-very-long-lines",
        before: "@long-line 2M",
        ..PLAIN
    },
    Profile {
        name: "is-silent-for-a-while",
        before: "@wait 300",
        ..PLAIN
    },
    Profile {
        name: "leaves-a-process",
        after: "@orphan 600",
        shown: "outlived the session",
        ..PLAIN
    },
    Profile {
        name: "says-more-after-it-is-done",
        after: "@say Is there anything else?",
        shown: "anything else",
        ..PLAIN
    },
    Profile {
        name: "ignores-cancel-and-term",
        after: "@ignore-cancel\n@ignore-term",
        ..PLAIN
    },
    Profile {
        name: "cancels-its-own-turn",
        after: "@stop cancelled",
        ..PLAIN
    },
];

/// Whether both profiles choose how the agent handles models, and so exclude each other.
fn exclude(one: &Profile, other: &Profile) -> bool {
    let about_models = |profile: &Profile| profile.flags.contains(&"--no-model-option");
    about_models(one) && about_models(other)
}

/// Plays the profiles together; the error says what went wrong.
async fn play(profiles: &[&Profile]) -> Result<(), String> {
    let part = |part: fn(&Profile) -> &'static str| -> String {
        let lines = profiles
            .iter()
            .map(|profile| part(profile))
            .filter(|lines| !lines.is_empty());
        lines.map(|lines| format!("{lines}\n")).collect()
    };
    let ends_itself = |profile: &&&Profile| profile.after.starts_with("@stop");
    let cancelled = profiles.iter().any(|profile| ends_itself(&profile));
    // The directive that ends the turn goes last.
    let mut last: Vec<&&Profile> = profiles.iter().collect();
    last.sort_by_key(|profile| ends_itself(profile));
    let after: String = last
        .iter()
        .map(|profile| format!("{}\n", profile.after))
        .collect();
    let script = format!(
        "{}@run echo work > work.txt\n@done\n{after}",
        part(|profile| profile.before)
    );
    let flags: Vec<&str> = profiles
        .iter()
        .flat_map(|profile| profile.flags)
        .copied()
        .collect();
    let stage = scene(&script)
        .arguments(&flags)
        .model("Opus")
        .limits(|limits| limits.grace_ms = 500);
    let played = stage.play().await;
    let expected = turn(if cancelled { "cancelled" } else { "end_turn" });
    let done = played
        .end
        .text
        .matches("<task-done>t-0123456789ab</task-done>")
        .count();
    let transcript = played.transcript();
    let missing: Vec<&str> = profiles
        .iter()
        .map(|profile| profile.shown)
        .filter(|shown| !transcript.contains(shown))
        .collect();
    if played.end.ended != expected {
        return Err(format!("{:?}", played.end.ended));
    }
    if done != 1 || played.end.text.contains("t-000000000000") {
        return Err(format!("heard {:?}", played.end.text));
    }
    if worked(&played) != "work\n" || !missing.is_empty() {
        return Err(format!("missing {missing:?} in {transcript}"));
    }
    Ok(())
}

fn worked(played: &Played) -> String {
    std::fs::read_to_string(played.path("work.txt")).unwrap_or_default()
}

fn names(profiles: &[&Profile]) -> String {
    let names: Vec<&str> = profiles.iter().map(|profile| profile.name).collect();
    names.join(" + ")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_profile_gets_its_work_done() {
    let played = PROFILES
        .iter()
        .map(|profile| async move { (profile.name, play(&[profile]).await) });
    for (name, outcome) in futures::future::join_all(played).await {
        assert_eq!(outcome, Ok(()), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_combined_at_random_get_their_work_done() {
    // Another combination each time; `RALPH_TEST_SEED` repeats one.
    let seed = std::env::var("RALPH_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..COMBINATIONS {
        let count = random.random_range(2..=6);
        let mut chosen: Vec<&Profile> = Vec::new();
        for profile in PROFILES.choose_multiple(&mut random, count) {
            if !chosen.iter().any(|other| exclude(profile, other)) {
                chosen.push(profile);
            }
        }
        chosen.shuffle(&mut random);
        let outcome = play(&chosen).await;
        assert_eq!(outcome, Ok(()), "RALPH_TEST_SEED={seed}: {}", names(&chosen));
    }
}

#[tokio::test]
async fn a_write_that_was_not_offered_is_refused_and_the_session_continues() {
    let played = scene("@fs-write a x\n@done")
        .access(Access::ReadOnly)
        .play()
        .await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert!(played.transcript().contains("may not write") && !played.path("a").exists());
}
