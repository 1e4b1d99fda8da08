#![doc = include_str!("../README.md")]

mod fence;
mod inspection;
mod name;
mod problem;
mod prompts;
mod schema;
mod template;

pub use fence::{FENCE_RULES, fence_data};
pub use name::{PromptName, PromptVariable};
pub use problem::PromptProblem;
pub use prompts::Prompts;
pub use schema::schemas_of;
