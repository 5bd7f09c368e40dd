//! Pairs tags to sigils, judges them, and keeps the valid ones.

use std::ops::Range;

use super::attributes::Attributes;
use super::endings::{Candidates, Mentions, is_code};
use super::failure_report::FailureReport;
use super::lines::{MEMORY_MARK, REASON_MARK, marked_lines};
use super::memory::{Knowledge, Learning, Note};
use super::name::SigilName;
use super::question::Question;
use super::scan::{Scanner, Shape, Tag};
use super::signals::{Difficulty, Promise, Sigils, UsedEntries};
use super::value::{Fault, required, required_attribute, required_list};
use crate::kind::SessionKind;
use crate::plain::visible;

/// Maximum number of a text's knowledge entries, learnings and notes, each; an agent in a loop writes more.
pub const MAX_ENTRIES: usize = 10_000;

/// Maximum number of entries that a session may report as helpful, and as misleading.
const MAX_USED: usize = 100;

/// The facts that decide which sigils of a text are valid.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The kind of session; each kind accepts its own sigils (SPEC 4.1).
    pub kind: SessionKind,
    /// The assigned task's whole short id (`t-9f2c41aa07be`). Only a work session names it.
    pub task_id: &'a str,
    /// The configuration's model tiers, the only names that `<next-model>` may give.
    pub model_tiers: &'a [String],
}

/// Reads an agent's message text, all chunks joined, never thoughts or tool output (SPEC 4).
///
/// Invisible characters are removed first. Never fails; malformed sigils are skipped and counted. Time and
/// memory are linear in the text's length.
#[must_use]
pub fn parse(text: &str, context: &Context<'_>) -> Sigils {
    read(&visible(text), context).0
}

/// [`parse`], with the number of visited bytes; every visit counts.
pub(super) fn read(text: &str, context: &Context<'_>) -> (Sigils, u64) {
    let mut reader = Reader {
        context,
        sigils: Sigils::default(),
        notes: Vec::new(),
        endings: Vec::new(),
        whole: Vec::new(),
        mentions: Mentions::of(text),
        visited: 4 * text.len() as u64,
    };
    reader.read_tags(text);
    reader.read_endings(text);
    if context.kind == SessionKind::Work {
        reader.read_lines(text);
    }
    reader.notes.sort_by_key(|&(start, _)| start);
    reader.sigils.notes = reader.notes.into_iter().map(|(_, note)| note).collect();
    (reader.sigils, reader.visited)
}

struct Reader<'a> {
    context: &'a Context<'a>,
    sigils: Sigils,
    /// Notes from tags and from lines, each with its offset.
    notes: Vec<(usize, Note)>,
    /// Sigils that end a session, not yet judged: the opening tag and the end of the body.
    endings: Vec<(Tag, usize)>,
    /// Every whole sigil.
    whole: Vec<Range<usize>>,
    mentions: Mentions,
    visited: u64,
}

impl Reader<'_> {
    fn read_tags(&mut self, text: &str) {
        // Opening tags that wait for their closing ones.
        let mut open: [Option<Tag>; SigilName::COUNT] = [None; SigilName::COUNT];
        let mut scanner = Scanner::new(text);
        for tag in &mut scanner {
            if !tag.name.is_allowed_for(self.context.kind) {
                continue;
            }
            let waiting = &mut open[tag.name as usize];
            match tag.shape {
                Shape::Broken => self.count_malformed(),
                Shape::SelfClosing => self.judge(text, tag, tag.end..tag.end, tag.end),
                Shape::Open => {
                    if let Err(fault) = self.check_attributes(text, tag) {
                        self.count(fault);
                    } else if waiting.replace(tag).is_some() {
                        self.count_malformed();
                    }
                }
                Shape::Close => {
                    if let Some(opening) = waiting.take() {
                        self.judge(text, opening, opening.end..tag.start, tag.end);
                    }
                }
            }
        }
        self.visited += scanner.visited;
        for _unclosed in open.into_iter().flatten() {
            self.count_malformed();
        }
    }

    fn read_lines(&mut self, text: &str) {
        self.visited += 2 * text.len() as u64;
        for (start, line) in marked_lines(text, MEMORY_MARK) {
            self.visited += line.len() as u64;
            if self.mentions.hold(start) {
                continue;
            }
            match Note::read_line(line) {
                Ok(note) => keep(&mut self.notes, (start, note), &mut self.sigils.left_out),
                Err(fault) => self.count(fault),
            }
        }
        for (start, line) in marked_lines(text, REASON_MARK) {
            self.visited += line.len() as u64;
            if self.mentions.hold(start) {
                continue;
            }
            match required(line) {
                Ok(reason) => keep_first(&mut self.sigils.failure_reason, reason.to_owned()),
                Err(fault) => self.count(fault),
            }
        }
    }

    /// Checks that an opening tag has the attributes that its sigil requires: a tag that was only mentioned
    /// doesn't end the body around it.
    fn check_attributes(&mut self, text: &str, tag: Tag) -> Result<(), Fault> {
        if !matches!(
            tag.name,
            SigilName::Knowledge | SigilName::Learning | SigilName::Memory
        ) {
            return Ok(());
        }
        self.visited += (tag.end - tag.start) as u64;
        let attributes = tag.attributes(text);
        let required: &[Option<&str>] = match tag.name {
            SigilName::Knowledge => &[attributes.title, attributes.tags],
            SigilName::Learning => &[attributes.category, attributes.tags],
            _ => &[attributes.kind],
        };
        required
            .iter()
            .try_for_each(|&value| required_attribute(value).map(drop))
    }

    fn judge(&mut self, text: &str, opening: Tag, body: Range<usize>, end: usize) {
        self.whole.push(opening.start..end);
        if opening.name.is_ending() {
            self.endings.push((opening, body.end));
            return;
        }
        // Agents often put a graph into a fence.
        let is_mentioned = self.mentions.hold(opening.start) || is_code(text, opening.start..end);
        if opening.name != SigilName::TaskGraph && is_mentioned {
            return;
        }
        self.visited += (body.end - opening.start) as u64;
        if let Err(fault) = self.take(text, opening, &text[body]) {
            self.count(fault);
        }
    }

    /// Takes the endings that are meant, once their surroundings are known.
    fn read_endings(&mut self, text: &str) {
        if self.endings.is_empty() {
            return;
        }
        let mentions = std::mem::replace(&mut self.mentions, Mentions::of(""));
        let mut places = Candidates::new(text, &mentions, std::mem::take(&mut self.whole));
        let mut endings = std::mem::take(&mut self.endings);
        endings.sort_by_key(|(opening, _)| opening.start);
        for (opening, body_end) in endings {
            if places.is_statement(opening.start)
                && let Err(fault) = self.end(text, opening, &text[opening.end..body_end], &mut places)
            {
                self.count(fault);
            }
        }
    }

    fn end(
        &mut self,
        text: &str,
        opening: Tag,
        body: &str,
        places: &mut Candidates<'_>,
    ) -> Result<(), Fault> {
        self.visited += (body.len() + opening.end - opening.start) as u64;
        let task_id = self.context.task_id;
        let is_assigned = |id: &str| (id == task_id).then_some(());
        match opening.name {
            SigilName::TaskDone | SigilName::TaskFailed => one_of(body, is_assigned)?,
            _ => {
                // A form without its words stays a form, wherever it is.
                required_unless_blank(opening.name, body)?;
                match opening.attributes(text).id {
                    Some(id) => one_of(id, is_assigned)?,
                    None if places.is_last(opening.start) => {}
                    None => return Err(Fault::Malformed),
                }
            }
        }
        let sigils = &mut self.sigils;
        match opening.name {
            // The last statement counts.
            SigilName::TaskDone => (sigils.task_done, sigils.task_failed) = (true, false),
            SigilName::TaskFailed => (sigils.task_done, sigils.task_failed) = (false, true),
            SigilName::Promise => sigils.promise = Some(one_of(body, Promise::from_word)?),
            SigilName::VerifyPass => sigils.verify_pass |= blank(body)?,
            SigilName::VerifyFail => keep_first(&mut sigils.verify_fail, required(body)?.to_owned()),
            SigilName::ReviewPass => sigils.review_pass |= blank(body)?,
            _ => keep_first(&mut sigils.review_changes, required(body)?.to_owned()),
        }
        Ok(())
    }

    fn take(&mut self, text: &str, opening: Tag, body: &str) -> Result<(), Fault> {
        let sigils = &mut self.sigils;
        match opening.name {
            SigilName::NextModel => {
                let tier = one_of(body, |name| {
                    self.context.model_tiers.iter().find(|tier| *tier == name)
                })?;
                keep_first(&mut sigils.next_model, tier.clone());
            }
            SigilName::Journal => keep_first(&mut sigils.journal, required(body)?.to_owned()),
            SigilName::Knowledge => {
                let knowledge = Knowledge::read(opening.attributes(text), body)?;
                keep(&mut sigils.knowledge, knowledge, &mut sigils.left_out);
            }
            SigilName::FailureReport => keep_first(&mut sigils.failure_report, FailureReport::read(body)?),
            SigilName::RetrySuggestion => {
                keep_first(&mut sigils.retry_suggestion, required(body)?.to_owned());
            }
            SigilName::Learning => {
                let learning = Learning::read(opening.attributes(text), body)?;
                keep(&mut sigils.learnings, learning, &mut sigils.left_out);
            }
            SigilName::DifficultyEstimate => {
                keep_first(&mut sigils.difficulty, one_of(body, Difficulty::from_word)?);
            }
            SigilName::TaskGraph => keep_first(&mut sigils.task_graph, required(body)?.to_owned()),
            SigilName::Memory => {
                let note = Note::read(opening.attributes(text), body)?;
                keep(&mut self.notes, (opening.start, note), &mut sigils.left_out);
            }
            SigilName::Used => take_used(&mut sigils.used, opening.attributes(text))?,
            SigilName::Question => {
                let question = Question::read(opening.attributes(text), body)?;
                keep(&mut sigils.questions, question, &mut sigils.left_out);
            }
            // Sigils that end a session come later, see `end`.
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, fault: Fault) {
        match fault {
            Fault::Malformed => self.count_malformed(),
            Fault::Placeholder => {}
        }
    }

    fn count_malformed(&mut self) {
        self.sigils.malformed = self.sigils.malformed.saturating_add(1);
    }
}

/// At least one of both lists has to name something; of each, at most [`MAX_USED`] ids are kept.
fn take_used(used: &mut UsedEntries, attributes: Attributes<'_>) -> Result<(), Fault> {
    let mut fault = Some(Fault::Malformed);
    for (named, kept) in [
        (attributes.helped, &mut used.helped),
        (attributes.misled, &mut used.misled),
    ] {
        match named.map(|ids| required_list(Some(ids), str::to_lowercase)) {
            Some(Ok(ids)) => {
                let room = MAX_USED.saturating_sub(kept.len());
                kept.extend(ids.into_iter().take(room));
                fault = None;
            }
            Some(Err(Fault::Placeholder)) => fault = fault.map(|_| Fault::Placeholder),
            _ => {}
        }
    }
    fault.map_or(Ok(()), Err)
}

/// The value that `known` has for the trimmed body.
fn one_of<T>(body: &str, known: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
    known(required(body)?).ok_or(Fault::Malformed)
}

/// Checks that the body is no placeholder, and is not missing if it is required.
fn required_unless_blank(name: SigilName, body: &str) -> Result<(), Fault> {
    match name {
        SigilName::VerifyPass | SigilName::ReviewPass => blank(body).map(drop),
        _ => required(body).map(drop),
    }
}

/// Returns true if the body is blank, as a sigil without a body requires.
fn blank(body: &str) -> Result<bool, Fault> {
    if body.trim().is_empty() {
        Ok(true)
    } else {
        Err(Fault::Malformed)
    }
}

fn keep_first<T>(kept: &mut Option<T>, value: T) {
    kept.get_or_insert(value);
}

fn keep<T>(list: &mut Vec<T>, value: T, left_out: &mut u32) {
    if list.len() < MAX_ENTRIES {
        list.push(value);
    } else {
        *left_out = left_out.saturating_add(1);
    }
}
