//! Limits of a listener's connections.

use std::time::Duration;

/// Limits of a listener's connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Maximum number of concurrent connections.
    pub(crate) connections_max: usize,
    /// Timeout for a complete request head, from its first byte.
    pub(crate) head_timeout: Duration,
    /// Timeout for the first byte of a request.
    pub(crate) idle_timeout: Duration,
    /// Maximum size of a request head, in bytes. A larger one gets 431.
    pub(crate) head_bytes_max: usize,
    /// Timeout for a client that reads nothing of its response.
    pub(crate) write_timeout: Duration,
}

impl ConnectionLimits {
    /// Limits for agents and operators. 512 connections are half of the usual limit of 1,024 open files.
    /// Ordinary clients send a head in one piece, and 64 KiB is eight times what most servers accept. An
    /// agent that sends a request every few seconds keeps its connection.
    pub(crate) const HTTP: Self = Self {
        connections_max: 512,
        head_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(15),
        head_bytes_max: 64 * 1024,
        write_timeout: Duration::from_secs(10),
    };
    /// Limits for webhooks, of which GitHub sends few at once.
    pub(crate) const SIGNED: Self = Self { connections_max: 128, ..Self::HTTP };
    /// Limits for probes and a scraper.
    pub(crate) const HEALTH: Self = Self { connections_max: 32, ..Self::HTTP };
}
