//! Views in answers, one file per noun: field names are SPEC 1's words, ids have their short form, times are
//! RFC 3339.

mod availability;
mod branch;
mod budget;
mod cost;
mod dispatch;
mod event;
mod examined;
mod feature;
mod gate;
mod hook;
mod inbox;
mod memory;
mod page;
mod progress;
mod run;
mod schedule;
mod system;
mod task;
mod token;
mod train;
mod worker;

pub use availability::{UnavailableAgent, WaitingView};
pub use branch::Landing;
pub use budget::BudgetView;
pub use cost::{BudgetsView, By, CostRow, CostsView};
pub use dispatch::{DispatchView, QuestionView, SessionView, TranscriptOf};
pub use event::{EventView, Happened};
pub use examined::{ChangedLines, Examined};
pub use feature::{FeatureView, TaskCounts};
pub use gate::{GateState, GateView};
pub use hook::HookView;
pub use inbox::{ConditionCount, InboxItem, InboxKind, InboxView};
pub use memory::{Fates, MemoryView, Relative, UseView};
pub use page::Page;
pub use progress::{FailureView, Progress};
pub use run::{RunLimits, RunView};
pub use schedule::ScheduleView;
pub use system::{FullKey, NeedsPerson, Pool, QueuedTask, SystemView, UndeliveredView, cost_of};
pub use task::{HeldBy, HeldTask, LogEntry, TaskDetail, TaskRef, TaskSession, TaskView};
pub use token::{Role, TokenView};
pub use train::{CarStatus, CarView, TrainView};
pub use worker::{WorkerStatus, WorkerView};
