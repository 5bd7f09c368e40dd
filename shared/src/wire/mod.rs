//! The messages between workers and coordinators (DESIGN 3), one file a message, JSON.
//!
//! A request carries the versions that its sender reads; the answer uses the highest common one. Unknown
//! fields are ignored, and enums that a later version may extend have an `Unknown` arm, so that neighbours of
//! different releases understand each other.

mod assignment;
mod availability;
mod blob;
mod change;
mod check;
mod claim;
mod control;
mod decide;
mod git;
mod heartbeat;
mod hello;
mod leftovers;
mod orphan;
mod prune;
mod repo_scan;
mod report;
mod rule;
mod session_call;
mod text;
mod ticket;
mod transcript;
mod usage;
mod version;

pub use crate::wire::availability::{ClosedAgent, Concerns, Unavailable};
pub use crate::wire::leftovers::{LeftoverFile, LeftoverFiles};
pub use crate::wire::orphan::{ORPHANS_SUFFIX, OrphanRef, orphan_refs};
pub use crate::wire::repo_scan::{
    KNOWLEDGE_FOLDER, KnowledgeFolder, KnowledgeText, NEVER_SCANNED, Rename, RepoScan, RepoScanOrder,
};
pub use assignment::{
    Access, Ahead, Assignment, CONTEXT_DIR, Decided, DirOrder, FailedTree, GateStep, GitOrder,
    IntegrateOrder, Landed, ModelChoice, PassedTree, Repository, SessionLimits, SessionOrder, Work,
    WorkspaceOrder,
};
pub use blob::{BlobAnswer, BlobRequest};
pub use change::{Change, TestChange, TestChangeKind};
pub use check::{CheckAnswer, CheckRequest};
pub use claim::{ClaimAnswer, ClaimRequest};
pub use control::{Control, EndReason};
pub use decide::{DecideAnswer, DecideRequest};
pub use git::{GitOperation, GitOperationOrder, MergeHow, NoMerge};
pub use heartbeat::{End, Heartbeat, HeartbeatAnswer, Settled, Settlement};
pub use hello::{Hello, HelloAnswer};
pub use prune::{AttemptRef, PruneAnswer, PruneRequest, Pruned};
pub use report::{
    AgentInfo, Ended, Finished, Gated, IntegrationEnd, IntegrationReport, Report, SessionLimit,
    SessionReport, Snapshot, StepTime,
};
pub use rule::{AgentRule, DEFAULT_AGENT, agent_for, agents_for};
pub use session_call::{Call, CallAnswer, SessionCall, Words};
pub use text::{MAX_TEXT_BYTES, PART_BYTES, Text, TextError, sha256_hex};
pub use ticket::Ticket;
pub use transcript::{
    RetainedTranscript, TranscriptBatch, TranscriptEntry, TranscriptOrigin, TranscriptUpdate,
};
pub use usage::{Basis, DispatchUsage, Granted, Share, Usage};
pub use version::{READS, WRITES, common_version};
