//! Tests both databases: the conformance suite of `retro-store`, migrations, and damaged or unavailable
//! databases.

mod postgres;
mod sqlite;
