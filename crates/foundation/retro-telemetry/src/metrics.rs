//! Defines every metric of the program. Measuring does nothing until a meter provider is installed.

mod catalogue;
mod instrument;

pub use catalogue::*;
pub use instrument::{Counter, Gauge, Histogram, InstrumentInfo, Kind};
