#![doc = include_str!("../README.md")]

mod blocking;
mod breaker;
mod earlier_batch;
mod handler;
mod outcome;
mod panics;
mod sweep;
pub mod watchdog;

pub use blocking::{run_blocking, run_in_place};
pub use breaker::{CallPermission, CircuitBreaker};
pub use earlier_batch::EarlierBatch;
pub use handler::{Consumer, MessageHandler, Reconcilable};
pub use outcome::{HandlerError, HandlerOutcome, STORE_RETRY_DELAY};
pub use panics::{Panicked, catch_panic};
pub use sweep::{ITEMS_PER_SWEEP, OVERDUE_S, PassLoop, Sweep, process_item, run_sweep};
pub use watchdog::{Watch, Watchdog};
