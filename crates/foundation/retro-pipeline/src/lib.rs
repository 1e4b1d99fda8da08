#![doc = include_str!("../README.md")]

mod name;
mod problem;
mod prompts;
mod schema;
mod template;

pub use name::{PromptName, PromptVariable};
pub use problem::PromptProblem;
pub use prompts::Prompts;
pub use schema::{ANSWER_SCHEMA, ANSWER_SCHEMA_FILE};
