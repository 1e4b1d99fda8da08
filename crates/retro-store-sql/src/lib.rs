#![doc = include_str!("../README.md")]

pub mod body;
pub mod claim;
pub mod close;
pub mod count;
pub mod investigate;
pub mod letter;
pub mod manual;
pub mod memory;
mod place;
pub mod retrospective;
pub mod run;

pub use place::{At, at, integer, json, policy_time, translate, workflow_key};
