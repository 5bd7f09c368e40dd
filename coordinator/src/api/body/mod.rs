//! What requests and answers are made of, besides the views of [`crate::store::view`]. The command line reads and writes
//! the same structs, so that the two can't drift apart.

mod budgets;
mod control;
mod edit;
mod limits;
mod memory;
mod operate;
mod priority;
mod problem;
mod protect;
mod schedule;
mod submit;
mod tasks;
mod texts;
mod token;
mod transcript;

pub use crate::api::body::control::{Answering, Done, Started, Steer, WaitFor};
pub use crate::api::body::priority::PrecedenceWish;
pub use crate::api::body::schedule::{CreateHook, CreatedHook, Hooked, PauseSchedule, SetSchedule};
pub use budgets::{BudgetsWish, LimitWish};
pub use edit::{EditFeature, EditTask};
pub use limits::{BadWish, RunWish};
pub use memory::{
    AddMemory, Answered, EmbeddingsView, Explained, Hit, ImportMemory, Imported, MemoryReport, PromptNext,
    PruneMemory, PurgeMemory, Purged, RestoreMemory, ResumeMemory, RetractResult, RevokedMemory,
    SearchMemory, SectionView, SwitchedOffView,
};
pub use operate::{Merging, Operating, PruneAttempts, Pruning, Reverting, StayingBranch};
pub use problem::ProblemBody;
pub use submit::{Accepted, DirRef, RepoRef, SubmitFeature, SubmitTask};
pub use tasks::GraphText;
pub use texts::{TextsView, WriteText};
pub use token::{CreateToken, CreatedLogin, CreatedToken};
pub use transcript::{Following, PromptSent, SectionTokens, Transcript};
