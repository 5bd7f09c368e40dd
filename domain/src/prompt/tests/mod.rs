//! Prompts: the worked examples, the budgets, and what each kind of session is told.

mod budgets;
mod kinds;
mod scene;
mod voices;
mod worked;
