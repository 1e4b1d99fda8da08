#![doc = include_str!("../README.md")]

mod catalogue;
mod instrument;

pub use catalogue::*;
pub use instrument::{Counter, Gauge, Histogram, InstrumentInfo, Kind};
