//! What tests of this crate share with others: the table of bad input, and the laws of reading that the fuzz targets
//! try and an ordinary test replays. Behind the feature `testing`.

pub mod bad;
#[cfg(test)]
mod corpus;
pub mod laws;
