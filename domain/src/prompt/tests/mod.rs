//! Prompts: the worked examples, the budgets, and each kind of session.

mod budgets;
mod kinds;
mod scene;
mod voices;
mod worked;
