//! Provides test support for this and other crates, behind the feature `testing`: the table of bad input, and
//! the properties of parsing that fuzz targets check and an ordinary test replays.

pub mod bad;
#[cfg(test)]
mod corpus;
pub mod laws;
