#![doc = include_str!("../README.md")]

mod audit;
mod batch;
mod broker;
mod claim;
mod close;
mod count;
mod credit;
mod damage;
mod delivery;
mod investigate;
mod keep;
mod letter;
mod level;
mod manual;
mod memory;
mod open;
mod operate;
mod outbox;
mod recall;
mod replay;
mod request;
mod retrospective;
mod review;
mod rules;
mod run;
mod sample;
mod steer;
mod trace;
mod track;
mod write;

pub use open::{BUSY_WAIT, READERS_MAX, SqliteStore, migrate};

/// The database's clock as an SQL expression: Unix time in milliseconds. The same throughout one statement.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}
use now_ms;
