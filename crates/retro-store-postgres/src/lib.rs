#![doc = include_str!("../README.md")]

mod answer;
mod audit;
mod batch;
mod broker;
mod claim;
mod close;
mod count;
mod credit;
mod delivery;
mod investigate;
mod keep;
mod letter;
mod level;
mod lock;
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

pub use open::{CONNECTIONS_MAX, LOCK_WAIT, PostgresStore, migrate, name};

/// The database's clock as an SQL expression: Unix time in milliseconds, when the statement came. The same throughout
/// one statement, so that it can bound an index; and not when the transaction began (`now()`), since a transaction may
/// have waited for the lock of its workflow, and a lease is counted from when it is given.
macro_rules! now_ms {
    () => {
        "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}
use now_ms;
