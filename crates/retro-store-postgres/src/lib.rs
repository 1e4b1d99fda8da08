#![doc = include_str!("../README.md")]

mod audit;
#[path = "../../retro-store-sql/ports/batch.rs"]
mod batch;
mod broker;
#[path = "../../retro-store-sql/ports/cancel.rs"]
mod cancel;
mod claim;
mod close;
mod convert;
mod count;
mod credit;
mod dead_letter;
mod delivery;
mod dialect;
#[path = "../../retro-store-sql/ports/embeddings.rs"]
mod embeddings;
#[path = "../../retro-store-sql/ports/history.rs"]
mod history;
#[path = "../../retro-store-sql/ports/idempotency.rs"]
mod idempotency;
#[path = "../../retro-store-sql/ports/investigate.rs"]
mod investigate;
mod lock;
#[path = "../../retro-store-sql/ports/losses.rs"]
mod losses;
mod manual;
mod memory;
mod metrics;
mod open;
#[path = "../../retro-store-sql/ports/operator.rs"]
mod operator;
mod outbox;
mod outcome;
mod recall;
#[path = "../../retro-store-sql/ports/replay.rs"]
mod replay;
#[path = "../../retro-store-sql/ports/replayed.rs"]
mod replayed;
mod retention;
mod retrospective;
mod review;
mod rules;
mod run;
#[path = "../../retro-store-sql/ports/sample.rs"]
mod sample;
#[path = "../../retro-store-sql/ports/stream.rs"]
mod stream;
#[path = "../../retro-store-sql/ports/trace.rs"]
mod trace;
mod track;
mod tracked_runs;
#[path = "../../retro-store-sql/ports/verify.rs"]
mod verify;
mod write;

pub use open::{CONNECTIONS_MAX, LOCK_WAIT, PostgresStore, RECORDERS_MAX, describe_address, migrate};

use dialect::now_ms;
