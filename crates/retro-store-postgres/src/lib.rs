#![doc = include_str!("../README.md")]

mod answer;
mod audit;
#[path = "../../retro-store-sql/ports/batch.rs"]
mod batch;
mod broker;
mod claim;
mod close;
mod count;
mod credit;
mod delivery;
mod dialect;
mod follow;
#[path = "../../retro-store-sql/ports/history.rs"]
mod history;
#[path = "../../retro-store-sql/ports/investigate.rs"]
mod investigate;
mod keep;
mod letter;
mod level;
mod lock;
#[path = "../../retro-store-sql/ports/losses.rs"]
mod losses;
mod manual;
mod memory;
mod open;
#[path = "../../retro-store-sql/ports/operate.rs"]
mod operate;
mod outbox;
mod outcome;
mod recall;
#[path = "../../retro-store-sql/ports/replay.rs"]
mod replay;
#[path = "../../retro-store-sql/ports/replayed.rs"]
mod replayed;
#[path = "../../retro-store-sql/ports/request.rs"]
mod request;
mod retrospective;
mod review;
mod rules;
mod run;
#[path = "../../retro-store-sql/ports/sample.rs"]
mod sample;
#[path = "../../retro-store-sql/ports/steer.rs"]
mod steer;
#[path = "../../retro-store-sql/ports/stream.rs"]
mod stream;
#[path = "../../retro-store-sql/ports/trace.rs"]
mod trace;
mod track;
#[path = "../../retro-store-sql/ports/vectors.rs"]
mod vectors;
#[path = "../../retro-store-sql/ports/verify.rs"]
mod verify;
mod write;

pub use open::{CONNECTIONS_MAX, LOCK_WAIT, PostgresStore, RECORDERS_MAX, migrate, name};

use dialect::now_ms;
