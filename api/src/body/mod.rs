//! Bodies of requests, and of answers other than the views of [`crate::view`].

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

pub use budgets::{BudgetOptions, LimitOptions, SetBudget};
pub use control::{AddDependencies, AnswerQuestion, CommandOptions, Done, Started};
pub use edit::{EditFeature, EditTask};
pub use library::{EditMemory, ImportLine, QueryLine, utc};
pub use limits::{InvalidRunSettings, RunOptions};
pub use memory::{
    AddMemory, Answered, EmbeddingsView, Explained, Hit, ImportMemory, Imported, MemoryReport, PromptNext,
    PruneMemory, PurgeMemory, Purged, RestoreMemory, ResumeMemory, RetractResult, RevokedMemory,
    SearchMemory, SectionView, SwitchedOffView,
};
pub use operate::{BranchOperations, MergeFeature, PruneAttempts, Pruning, RevertTask, StayingBranch};
pub use priority::PrecedenceOptions;
pub use problem::ProblemBody;
pub use schedule::{CreateHook, CreatedHook, Hooked, PauseSchedule, SetSchedule};
pub use submit::{Accepted, DirRef, RepoRef, SubmitFeature, SubmitTask};
pub use tasks::GraphText;
pub use texts::{TextsView, WriteText};
pub use token::{CreateToken, CreatedLogin, CreatedToken};
pub use transcript::{Following, PromptSent, SectionTokens, Transcript};
