//! Writes one object in full, in the same words for a terminal and as Markdown. Text from runs is made safe for both.

use crate::markdown::{escape_text, render_code_block};
use crate::text;
use crate::text_table::{Layout, render_table};

/// A text under construction.
pub(crate) struct Document {
    layout: Layout,
    out: String,
}

impl Document {
    pub(crate) const fn new(layout: Layout) -> Self {
        Self { layout, out: String::new() }
    }

    /// Writes the title.
    pub(crate) fn title(&mut self, title: &str) {
        self.heading(1, title);
    }

    /// Writes the heading of a section.
    pub(crate) fn section(&mut self, title: &str) {
        self.heading(2, title);
    }

    /// Writes the heading of a part of a section.
    pub(crate) fn part(&mut self, title: &str) {
        self.heading(3, title);
    }

    fn heading(&mut self, level: usize, title: &str) {
        let gap = if self.out.is_empty() { "" } else { "\n" };
        let line = match self.layout {
            Layout::Terminal(_) => format!("{gap}{}\n", text::single_line(title)),
            Layout::Markdown => format!("{gap}{} {}\n\n", "#".repeat(level), escape_text(title)),
        };
        self.out.push_str(&line);
    }

    /// Writes a line of its own.
    pub(crate) fn line(&mut self, line: &str) {
        let line = match self.layout {
            Layout::Terminal(_) => format!("{}\n", text::single_line(line)),
            // Two spaces at the end break the line.
            Layout::Markdown => format!("{}  \n", escape_text(line)),
        };
        self.out.push_str(&line);
    }

    /// Writes an item of a list. Write the quotes of the item after it.
    pub(crate) fn item(&mut self, line: &str) {
        let line = match self.layout {
            Layout::Terminal(_) => format!("  {}\n", text::single_line(line)),
            Layout::Markdown => format!("- {}\n", escape_text(line)),
        };
        self.out.push_str(&line);
    }

    /// Writes words of a run, as they are, after a line or an item. Writes nothing if there are none.
    pub(crate) fn words(&mut self, words: &str) {
        if words.trim().is_empty() {
            return;
        }
        match self.layout {
            Layout::Terminal(_) => {
                let lines = text::printable(words.trim_end());
                self.out.extend(lines.lines().map(|line| format!("    │ {line}\n")));
            }
            Layout::Markdown => {
                self.out.push_str(&format!("\n{}\n", render_code_block(words.trim_end(), "  ")));
            }
        }
    }

    /// Writes a table. Writes nothing if there are no rows.
    pub(crate) fn table<const N: usize>(&mut self, head: [&str; N], rows: Vec<[String; N]>) {
        self.out.push_str(&render_table(self.layout, head, rows));
    }

    pub(crate) fn into_text(self) -> String {
        self.out
    }
}
