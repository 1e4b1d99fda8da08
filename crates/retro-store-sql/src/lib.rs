#![doc = include_str!("../README.md")]

pub mod body;
pub mod broker;
pub mod claim;
pub mod close;
pub mod count;
pub mod investigate;
pub mod letter;
pub mod level;
pub mod manual;
pub mod memory;
mod place;
pub mod replay;
pub mod retrospective;
pub mod review;
pub mod rules;
pub mod run;
pub mod step;
pub mod trace;
pub mod track;
pub mod vectors;

pub use place::{At, at, integer, json, policy_time, translate, workflow_key};
