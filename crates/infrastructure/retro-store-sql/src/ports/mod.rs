//! The ports of `retro-store` in the SQL that both databases understand. Each database compiles this folder as a
//! module of its own, with its `dialect`.

use super::{bodies, dialect, open};

mod attempt_history;
mod audit;
mod batch;
mod batch_items;
mod broker;
mod cancel;
mod claim;
mod close;
mod count;
mod credit;
mod dead_letter;
mod delivery;
mod embeddings;
mod history;
mod idempotency;
mod investigate;
mod investigations;
mod lock;
mod losses;
mod manual;
mod memory;
mod metrics;
mod operator;
mod outbox;
mod outcome;
mod recall;
mod replay;
mod replayed;
mod retention;
mod retrospective;
mod review;
mod rules;
mod run;
mod sample;
mod scheduled_replays;
mod stored_dead_letters;
mod stream;
mod stream_pending;
mod summaries;
mod trace;
mod track;
mod tracked_runs;
mod verify;
mod write;
