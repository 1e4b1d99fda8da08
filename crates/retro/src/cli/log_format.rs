//! Names the formats of the log.

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text for each message.
    Text,
    /// One JSON document per line for each message.
    Json,
}

impl LogFormat {
    /// Returns the format as it is configured.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }

    /// Parses the configured format. Returns `None` for any other word.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Text, Self::Json].into_iter().find(|format| format.as_str() == text)
    }
}
