//! Conversion of rows to the types of `retro-store`, the same for both databases.

pub(crate) mod audit;
pub(crate) mod body;
pub(crate) mod broker;
pub(crate) mod claim;
pub(crate) mod close;
pub(crate) mod commit_label;
pub(crate) mod count;
pub(crate) mod dead_letter;
pub(crate) mod feedback;
pub(crate) mod inspect;
pub(crate) mod investigate;
pub(crate) mod json_rows;
pub(crate) mod location;
pub(crate) mod manual;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod model_call;
pub(crate) mod replay;
pub(crate) mod retrospective;
pub(crate) mod review;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod summary;
pub(crate) mod trace;
pub(crate) mod track;
pub(crate) mod vectors;
