#![doc = include_str!("../README.md")]

mod apart;
mod brief;
pub mod engine;
pub mod heuristics;
mod worker;

pub use brief::Bodies;
pub use engine::{Engine, Heuristics};
pub use worker::{Settings, Worker};
