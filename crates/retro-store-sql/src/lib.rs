#![doc = include_str!("../README.md")]

pub mod audit;
pub mod body;
pub mod broker;
pub mod claim;
pub mod close;
pub mod commit_label;
pub mod count;
pub mod dead_letter;
pub mod investigate;
mod location;
pub mod manual;
pub mod memory;
pub mod metrics;
pub mod replay;
pub mod retrospective;
pub mod review;
pub mod rules;
pub mod run;
pub mod trace;
pub mod track;
pub mod vectors;

pub use location::{Location, at, format_policy_time, parse_workflow_key, to_i64, to_json, translate_error};
