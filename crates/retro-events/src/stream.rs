//! Names of streams and buckets at the broker. Like subjects, they never change.

/// Stream of the events that engines publish.
pub const INTAKE: &str = "RETRO_INTAKE";
/// Stream of GitHub events, which the bridge publishes.
pub const GITHUB: &str = "RETRO_GITHUB";
/// Stream of wake-ups between internal stages.
pub const WORK: &str = "RETRO_WORK";
/// Stream of announcements about memory changes, reports and dead letters.
pub const ANNOUNCEMENTS: &str = "RETRO_ANNOUNCEMENTS";
/// Bucket of bodies that are too large for a message.
pub const BODIES_BUCKET: &str = "retro-bodies";
/// Stream in which the broker stores the objects of [`BODIES_BUCKET`], named as every NATS client names it.
pub const BODIES: &str = "OBJ_retro-bodies";
