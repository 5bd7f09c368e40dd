//! What requests and answers are made of, besides the views of [`crate::view`].

mod budgets;
mod control;
mod edit;
mod library;
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

pub use budgets::{BudgetsWish, LimitWish, SetBudget};
pub use control::{Answering, Done, Started, Steer, WaitFor};
pub use edit::{EditFeature, EditTask};
pub use library::{EditMemory, ImportLine, QueryLine, utc};
pub use limits::{InvalidRunSettings, RunWish};
pub use memory::{
    AddMemory, Answered, EmbeddingsView, Explained, Hit, ImportMemory, Imported, MemoryReport, PromptNext,
    PruneMemory, PurgeMemory, Purged, RestoreMemory, ResumeMemory, RetractResult, RevokedMemory,
    SearchMemory, SectionView, SwitchedOffView,
};
pub use operate::{Merging, Operating, PruneAttempts, Pruning, Reverting, StayingBranch};
pub use priority::PrecedenceWish;
pub use problem::ProblemBody;
pub use schedule::{CreateHook, CreatedHook, Hooked, PauseSchedule, SetSchedule};
pub use submit::{Accepted, DirRef, RepoRef, SubmitFeature, SubmitTask};
pub use tasks::GraphText;
pub use texts::{TextsView, WriteText};
pub use token::{CreateToken, CreatedLogin, CreatedToken};
pub use transcript::{Following, PromptSent, SectionTokens, Transcript};
