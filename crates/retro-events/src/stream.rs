//! The names of what the broker keeps. Like subjects they never change.

/// The stream of what engines publish.
pub const INTAKE: &str = "RETRO_INTAKE";
/// The stream of what happened at GitHub, as the bridge tells it.
pub const GITHUB: &str = "RETRO_GITHUB";
/// The stream in which our stages wake each other.
pub const WORK: &str = "RETRO_WORK";
/// The stream of what we announce: changes, reports, dead letters.
pub const ANNOUNCEMENTS: &str = "RETRO_ANNOUNCEMENTS";
/// The bucket of bodies that are too large for a message.
pub const BODIES_BUCKET: &str = "retro-bodies";
/// The stream behind that bucket, named as every NATS client names it.
pub const BODIES: &str = "OBJ_retro-bodies";
