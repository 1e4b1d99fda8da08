//! Counts the texts that the screen and the baseline flag.

use std::sync::LazyLock;

use regex::Regex;
use retro_gate::screen_text;
use serde::Serialize;

/// One-line regular expression that a team without a screen might use, as the baseline.
pub(super) static BASELINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(ignore|disregard|forget) .{0,30}(instructions|prompt)|system prompt|you are now|act as|jailbreak|curl .*\| *sh|rm -rf")
        .expect("a constant pattern")
});

/// Number of texts, with the numbers flagged by the screen and by the baseline.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(super) struct Tally {
    pub(super) texts: usize,
    pub(super) screen: usize,
    pub(super) baseline: usize,
}

impl Tally {
    pub(super) fn count_text(&mut self, screen: bool, baseline: bool) {
        self.texts += 1;
        self.screen += usize::from(screen);
        self.baseline += usize::from(baseline);
    }

    /// Screens the texts and counts the flagged ones.
    pub(super) fn from_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut tally = Self::default();
        for text in texts {
            tally.count_text(screen_text(text).is_hostile(), BASELINE.is_match(text));
        }
        tally
    }

    fn rate(part: usize, whole: usize) -> f64 {
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    }

    pub(super) fn format_line(&self, name: &str) -> String {
        let (screen, baseline) = (Self::rate(self.screen, self.texts), Self::rate(self.baseline, self.texts));
        format!(
            "{name:<46} {:>6} {:>6}  {screen:>6.3}  {:>6}  {baseline:>6.3}",
            self.texts, self.screen, self.baseline
        )
    }
}
