//! Defines the names of streams and buckets at the broker. Like subjects, they never change.

/// Intake stream, which stores the events of finished runs.
pub const INTAKE: &str = "RETRO_INTAKE";
/// Stream of GitHub events, which the bridge publishes.
pub const GITHUB: &str = "RETRO_GITHUB";
/// Stream of wake-ups between internal stages.
pub const WORK: &str = "RETRO_WORK";
/// Stream of announcements about memory changes, reports and dead letters.
pub const ANNOUNCEMENTS: &str = "RETRO_ANNOUNCEMENTS";
/// Bucket of bodies that are too large for a message.
pub const BODIES_BUCKET: &str = "retro-bodies";
/// Stream in which the broker stores the objects of [`BODIES_BUCKET`], under the name that all NATS clients
/// derive from the bucket.
pub const BODIES: &str = "OBJ_retro-bodies";
