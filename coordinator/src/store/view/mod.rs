//! Data for screens, one file per noun.
//!
//! The functions fill the structs of [`ralph_api::view`], which are the JSON of the API. A list finds its ids
//! through an index first, and then reads only the rows that it shows. So a page costs the same for a feature
//! of ten tasks as for one of a hundred thousand.

mod attention;
mod availability;
mod branch;
mod budget;
mod change;
mod dispatch;
mod event;
mod examined;
mod feature;
mod find;
mod gate;
mod graph;
mod inbox;
mod memory;
mod page;
mod progress;
mod run;
mod system;
mod task;
mod train;
mod waiting;
mod worker;

pub use crate::store::view::availability::{UnavailableAgent, WaitingView, lack_of};
pub use branch::{Landing, landings};
pub use budget::{BudgetView, budgets};
pub use change::{ChangeView, change_of_task};
pub use dispatch::{
    DispatchView, QuestionView, SessionView, TranscriptOf, beginning_of_attempt, dispatch_after,
    dispatches_of_task, feature_of_task_runs, is_of_task, of_dispatch, session_of_task, sessions,
};
pub use event::{EventView, Happened, events};
pub use examined::{ChangedLines, Examined, examined_page};
pub use feature::{FeatureView, TaskCounts, features, features_page};
pub use find::{
    Match, find_feature, find_run, find_task, find_task_by_key, keys_of_tasks, names_of_features, newest_runs,
};
pub use gate::{GateState, GateView};
pub use graph::{GraphNode, graph};
pub use inbox::{ConditionCount, InboxItem, InboxKind, InboxView, inbox};
pub use memory::{
    MemoryFilter, MemorySizes, MemoryView, Relative, UseView, find_memories, find_memory, memory_entries,
    memory_id, memory_page, memory_sizes, most_weighed, newest_memories, relatives, trials, uses,
};
pub use page::{Cursor, MAX_PAGE, Page};
pub use progress::{FailureView, Progress, progress};
pub use run::{RunLimits, RunView, runs, runs_page};
pub use system::{FullKey, NeedsPerson, Pool, QueuedTask, SystemView, UndeliveredView, cost_of, system};
pub use task::{
    HeldBy, HeldTask, LogEntry, TaskDetail, TaskFilter, TaskRef, TaskView, detail, held_tasks, log_of_task,
    subtree, tasks, tasks_page,
};
pub use train::{CarStatus, CarView, TrainView};
pub use worker::{WorkerStatus, WorkerView, workers};
