//! Calls of running sessions: questions to people, and searches of the memory.

use ralph_shared::ids::DispatchId;
use ralph_shared::sigil::{Question, defuse};
use ralph_shared::wire::{Call, CallAnswer, SessionCall, Words};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::domain::recall::Kind;
use crate::flow::memory::embedding::Meaning;
use crate::flow::memory::library::{self, QueryLine};
use crate::flow::{Settings, Signals};
use crate::prompt;
use crate::prompt::Templates;
use crate::store;
use crate::store::dispatch::{Dispatch, DispatchState};
use crate::store::question::Unheard;

/// Answer of a search without a result.
const NOTHING: &str = "nothing is known of that";
/// Longest query, and longest text of a found entry. Characters.
const QUERY_CHARS: usize = 2_000;
const ENTRY_CHARS: usize = 2_000;
/// Most found entries of each kind.
const MAX_RESULTS: usize = 8;
/// Most questions of one session; an agent in a loop asks more.
const MOST_QUESTIONS: i64 = 50;

/// Answers a session's call, if its sender holds its dispatch.
pub async fn call(
    db: &PgPool,
    settings: &Settings,
    call: &SessionCall,
) -> sqlx::Result<(CallAnswer, Signals)> {
    let refused = |reason: &str| {
        let reason = reason.to_owned();
        Ok((CallAnswer::Refused { reason }, Signals::default()))
    };
    let mut conn = db.acquire().await?;
    let named = store::dispatch::read(&mut conn, &[call.dispatch.0]).await?.pop();
    drop(conn);
    let Some(dispatch) =
        named.filter(|d| d.state == DispatchState::Live && d.incarnation == call.incarnation)
    else {
        return refused("the session no longer holds its task");
    };
    match &call.call {
        Call::Ask { id, asked, choices } => match Question::new(asked, choices) {
            Some(question) => store_question(db, settings, &dispatch, *id, &question).await,
            None => refused("the question is empty"),
        },
        Call::MemorySearch { query } => {
            let found = search(db, settings, &dispatch, query).await?;
            Ok((found, Signals::default()))
        }
        Call::Unknown => refused("this coordinator doesn't know the call"),
    }
}

/// Stores a question, and returns for how long a person may answer. A repeated request stores nothing new.
async fn store_question(
    db: &PgPool,
    settings: &Settings,
    dispatch: &Dispatch,
    id: Uuid,
    question: &Question,
) -> sqlx::Result<(CallAnswer, Signals)> {
    let mut signals = Signals::default();
    let wait_ms = i64::try_from(settings.question_wait.as_millis()).unwrap_or(i64::MAX);
    let mut tx = db.begin().await?;
    let whose = (dispatch.id, dispatch.task);
    if store::question::count_of(&mut tx, dispatch.id).await? >= MOST_QUESTIONS
        && store::question::waits_ms(&mut tx, id, dispatch.id)
            .await?
            .is_none()
    {
        let prompt = prompt::decide(&settings.templates);
        return Ok((CallAnswer::Decide { prompt }, signals));
    }
    if store::question::insert(&mut tx, id, whose, question, wait_ms).await? {
        if wait_ms > 0 {
            let task = dispatch.task;
            let reason = format!("it asks: {}\n`task answer {task}` answers it", question.words());
            store::notice::person_needed(&mut tx, task, &reason).await?;
        }
        signals.features.insert(dispatch.feature);
    }
    let left = store::question::waits_ms(&mut tx, id, dispatch.id).await?;
    tx.commit().await?;
    let answer = match left.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) => CallAnswer::Wait { ms },
        None => CallAnswer::Decide {
            prompt: prompt::decide(&settings.templates),
        },
    };
    Ok((answer, signals))
}

/// Searches the memory of the session's repository, as `memory search` does.
async fn search(
    db: &PgPool,
    settings: &Settings,
    dispatch: &Dispatch,
    query: &str,
) -> sqlx::Result<CallAnswer> {
    let refused = |reason: &str| CallAnswer::Refused {
        reason: reason.to_owned(),
    };
    if !settings.memory {
        return Ok(refused("the memory is off"));
    }
    let query: String = query.chars().take(QUERY_CHARS).collect();
    let mut conn = db.acquire().await?;
    let repo = store::feature::repo_id(&mut conn, dispatch.feature).await?;
    let Some(repo) = repo.filter(|_| !query.trim().is_empty()) else {
        return Ok(refused("say what to search for"));
    };
    // A session that got no memory for its prompt can't search it either. Otherwise nobody could measure the
    // benefit of the memory.
    if store::memory::worth::is_withheld(&mut conn, dispatch.id, &repo).await? {
        return Ok(CallAnswer::Found {
            text: NOTHING.to_owned(),
        });
    }
    drop(conn);
    let asked = [QueryLine {
        query_id: String::new(),
        date: OffsetDateTime::now_utc(),
        title: query,
        description: String::new(),
    }];
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let picked = library::search(
            db,
            Meaning::for_search(settings),
            &repo,
            kind,
            &asked,
            MAX_RESULTS,
        )
        .await?;
        let shown = picked.into_iter().flat_map(|picked| picked.shown);
        found.extend(shown.map(|one| {
            let title = match one.entry.title.as_str() {
                "" => String::new(),
                title => format!("{title}: "),
            };
            let text = format!("{title}{}", one.entry.body);
            let text: String = text.chars().take(ENTRY_CHARS).collect();
            format!("- {}: {}", kind.into_str(), defuse(&text))
        }));
    }
    let text = match found.is_empty() {
        true => NOTHING.to_owned(),
        false => found.join("\n"),
    };
    Ok(CallAnswer::Found { text })
}

/// A person's message, as a worker passes it to its session.
pub(super) fn words_for_agent(templates: &Templates, words: Unheard) -> Words {
    let asked = words.question.as_ref().map(|(_, asked)| asked.as_str());
    Words {
        prompt: prompt::operator_message(templates, &words.by, &words.text, asked),
        id: words.id,
        dispatch: DispatchId(words.dispatch.0),
        question: words.question.map(|(id, _)| id),
        by: words.by,
        text: words.text,
    }
}
