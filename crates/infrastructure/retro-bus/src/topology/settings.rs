//! Settings of a process: the sizes of the streams, and whether it provisions them.

const MIB: u64 = 1024 * 1024;

/// Maximum size of each stream, in bytes. The server reserves this much of its storage limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSizes {
    /// Size of the intake stream, which keeps the events of finished runs for two weeks.
    pub intake_bytes: u64,
    /// Size of the GitHub stream, which keeps events for two weeks.
    pub github_bytes: u64,
    /// Size of the stream of wake-ups between internal stages.
    pub work_bytes: u64,
    /// Size of the stream that announces changes, reports and dead letters.
    pub announcements_bytes: u64,
    /// Size of the object store for run bodies that are too large for a message.
    pub bodies_bytes: u64,
}

impl StreamSizes {
    /// Divides this space, in MiB, among the streams: 8 of 19 parts for events and for bodies each, and one part
    /// for each other stream.
    pub const fn divide(mib: u32) -> Self {
        let part = mib as u64 * MIB / 19;
        Self {
            intake_bytes: 8 * part,
            github_bytes: part,
            work_bytes: part,
            announcements_bytes: part,
            bodies_bytes: 8 * part,
        }
    }
}

impl Default for StreamSizes {
    /// Returns sizes for a small disk, with space for about 30,000 events of the largest inline size, for the
    /// same amount of bodies, and for 100,000 GitHub comments of 2 KB.
    fn default() -> Self {
        Self::divide(4864)
    }
}

/// Mode of a process: it provisions streams and consumers, or only verifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyMode {
    /// The process creates and updates streams and consumers.
    Provision,
    /// The process expects streams and consumers to exist. Another process provisions them, and this one has no
    /// permission to do so.
    Verify,
}
