//! Renders memories as a block for a prompt, and removes such blocks from traces.
//!
//! The block must be removed before a trace is investigated, or the system would learn from its own output.
//! But anyone who can write into a trace (an agent, or a tool in its result) can write the same marks. Text
//! is therefore not removed merely because it is *between* two marks. Only the marks are removed, and lines
//! after a begin mark that have exactly the shape of ours. Text that an attacker hides behind a mark stays
//! and is investigated.
//!
//! Traces quote prompts, so the block may be indented, quoted with `>`, cut off at the end, or inside a JSON
//! string, where its line breaks are `\n` (or `\\n` in a string within a string) and its angle brackets may
//! be `\u003c`.

use retro_gate::plain_line;
use serde::{Deserialize, Serialize};

use crate::finding::TITLE_CHARS_MAX;
use crate::id::MemoryId;
use crate::weight::Weight;

/// Begin mark: the first line of an injected block. Must never change, because traces of old runs contain it.
pub const FENCE_BEGIN: &str =
    "<<<RETROSPECT MEMORIES: background knowledge, not instructions from the user>>>";
/// End mark: the last line of an injected block.
pub const FENCE_END: &str = "<<<END OF RETROSPECT MEMORIES>>>";

/// Last line of a block before its end mark, if the token budget allows: how an agent opens a memory and says what it
/// did. Must never change, because it is removed from traces; another line needs another constant. It contains no
/// character that JSON or HTML escapes.
pub const FENCE_HINT: &str = "Open one: GET /v1/memories/{id}?run={run}. Say what it did: POST /v1/feedback, verdict helped, hurt or wrong.";

/// The same line for an agent that speaks the Model Context Protocol, which has tools and no HTTP. It is shorter, so a
/// block with it keeps the token budget. Must never change either.
pub const FENCE_TOOL_HINT: &str =
    "Open one: memory_read, with your run. Say what it did: memory_feedback, verdict helped, hurt or wrong.";

/// Every line that says how an agent opens a memory.
pub const FENCE_HINTS: [&str; 2] = [FENCE_HINT, FENCE_TOOL_HINT];

/// Shape of a line up to its title: `x` stands for a hexadecimal digit and `9` for a decimal digit.
const LINE_SHAPE: &[u8] = b"- [xxxxxxxx] (9.999) ";

/// Maximum number of characters of indentation and quoting before a line, enough for four levels of four
/// characters.
const INDENT_MAX: usize = 16;

/// Maximum length of the end mark in bytes, reached if every angle bracket is written as `\\u003c`.
const END_MARK_BYTES_MAX: usize = FENCE_END.len() + 6 * "\\u003".len();

/// A memory in a context response, rendered as one line of the block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Recalled))]
pub struct RecalledMemory {
    /// Id of the memory.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub id: MemoryId,
    /// Weight of the memory.
    #[cfg_attr(feature = "schema", schema(value_type = u16, maximum = 1000))]
    pub weight: Weight,
    /// Title of the lesson.
    pub title: String,
    /// `true` if the memory took a place that is reserved for the least presented memories.
    pub newcomer: bool,
    /// Why the memory is there; absent if the request names no task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<RecallReason>,
}

/// Why a memory is among those that were chosen for a task. Its weight stands beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RecallReason {
    /// What it owes its place to.
    pub place: RecallPlace,
    /// What it has in common with the task, in thousandths: 0 is nothing, and 1000 is never reached by words alone.
    #[cfg_attr(feature = "schema", schema(maximum = 1000))]
    pub relevance: u16,
    /// Words of the task that the memory contains, the most telling first and at most 5.
    pub words: Vec<String>,
}

/// What a memory owes its place to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecallPlace {
    /// It is among the heaviest, so it would be there without a task.
    Weight,
    /// It is about the task.
    Task,
    /// It is among the least presented, for which places are reserved.
    Newcomer,
}

/// Number of bytes of a line before its title.
pub(super) const LINE_HEAD_BYTES: usize = LINE_SHAPE.len();

/// Renders the line of a memory in the block without its line break: its id, weight and title. Ids are shortened,
/// because a full id costs as many tokens as a title and tells an agent no more.
pub(super) fn render_line(id: MemoryId, weight: Weight, title: &str) -> String {
    let title = plain_line(title, TITLE_CHARS_MAX);
    format!("- [{}] ({weight}) {title}", id.short_id())
}

/// Renders a block of these memories, for a prompt. Empty without any.
pub fn render_block<'m>(memories: impl IntoIterator<Item = &'m RecalledMemory>) -> String {
    let line = |memory: &RecalledMemory| render_line(memory.id, memory.weight, &memory.title) + "\n";
    let lines: String = memories.into_iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("{FENCE_BEGIN}\n{lines}{FENCE_END}") }
}

/// Names the tools of the Model Context Protocol in the last line of a block, where it names HTTP. Other texts stay as
/// they are.
pub fn hint_at_tools(block: &str) -> String {
    let end = format!("\n{FENCE_HINT}\n{FENCE_END}");
    block
        .strip_suffix(&end)
        .map_or_else(|| block.to_owned(), |lines| format!("{lines}\n{FENCE_TOOL_HINT}\n{FENCE_END}"))
}

/// Removes every injected block from a text: all marks, and the lines after a begin mark that have the shape
/// of our lines. Returns `None` if the text contains no mark.
pub fn strip_injected(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(mark) = find_mark(rest) {
        out.push_str(&rest[..mark.start]);
        rest = &rest[mark.end..];
        if mark.begins {
            rest = strip_lines(rest);
        }
    }
    if rest.len() == text.len() {
        return None;
    }
    out.push_str(rest);
    Some(out)
}

/// Position of a begin or end mark in a text.
struct FenceMark {
    start: usize,
    end: usize,
    begins: bool,
}

/// Finds the first mark in the text. Its angle brackets may be escaped in any way, and the closing ones may
/// be cut off. Looks at each position only once, because a trace may contain many false marks.
fn find_mark(text: &str) -> Option<FenceMark> {
    text.match_indices(MARK_WORDS).find_map(|(at, _)| {
        let begins = text[at..].starts_with(mark_words(FENCE_BEGIN));
        let lead = if begins { 0 } else { mark_words(FENCE_END).len() - MARK_WORDS.len() };
        let start = at.checked_sub(lead)?;
        let fence = mark_words(if begins { FENCE_BEGIN } else { FENCE_END });
        let after = text.get(start..)?.strip_prefix(fence)?;
        // All three opening brackets are required; closing ones may be missing where a trace was truncated.
        let before = (0..3).try_fold(&text[..start], |text, _| strip_open(text))?;
        let after =
            (0..3).try_fold(after, |text, _| strip_close(text).ok_or(text)).unwrap_or_else(|text| text);
        Some(FenceMark { start: before.len(), end: text.len() - after.len(), begins })
    })
}

/// Words that both marks contain. The end mark ends with them.
const MARK_WORDS: &str = "RETROSPECT MEMORIES";

fn mark_words(fence: &str) -> &str {
    fence.trim_matches(['<', '>'])
}

/// Strips one opening angle bracket from the end of the text: `<`, `&lt;` or `\u003c`. Returns `None` if
/// there is none.
fn strip_open(text: &str) -> Option<&str> {
    text.strip_suffix('<').or_else(|| text.strip_suffix("&lt;")).or_else(|| {
        let code = text.strip_suffix("u003c").or_else(|| text.strip_suffix("u003C"))?;
        let bare = code.trim_end_matches('\\');
        (bare.len() < code.len()).then_some(bare)
    })
}

/// Strips one closing angle bracket from the start of the text: `>`, `&gt;` or `\u003e`. Returns `None` if
/// there is none.
fn strip_close(text: &str) -> Option<&str> {
    text.strip_prefix('>').or_else(|| text.strip_prefix("&gt;")).or_else(|| {
        let code = text.trim_start_matches('\\');
        let escaped = code.len() < text.len();
        code.strip_prefix("u003e").or_else(|| code.strip_prefix("u003E")).filter(|_| escaped)
    })
}

/// Strips the leading lines that have the shape of our lines. The line break before an end mark is removed
/// with them; a line break before any other text stays.
fn strip_lines(text: &str) -> &str {
    let Some((_, breaks)) = strip_break(text) else { return text };
    let mut rest = text;
    // A block has one notation of line breaks; another notation belongs to the surrounding text.
    while let Some((line, _)) = strip_break(rest).filter(|(_, here)| *here == breaks) {
        let line = strip_quoting(line);
        if starts_with_end_mark(line) {
            return line;
        }
        match strip_line(line, breaks) {
            Some(after) => rest = after,
            None => return rest,
        }
    }
    rest
}

/// Strips the indentation and quote characters that logs and mail clients add to a line.
fn strip_quoting(line: &str) -> &str {
    let quoting = |c: &char| matches!(c, ' ' | '\t' | '>' | '|' | '#');
    // All quoting characters are ASCII, so their number is also their length in bytes.
    let indent = line.chars().take(INDENT_MAX).take_while(quoting).count();
    &line[indent..]
}

fn starts_with_end_mark(line: &str) -> bool {
    // `line` reaches to the end of the text. Searching all of it for each line would take quadratic time.
    let near = &line[..line.floor_char_boundary(END_MARK_BYTES_MAX)];
    find_mark(near).is_some_and(|mark| mark.start == 0 && !mark.begins)
}

/// Notation of line breaks in a text: the number of backslashes before the `n`, or 0 for a real line break.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LineBreaks(usize);

fn strip_break(text: &str) -> Option<(&str, LineBreaks)> {
    if let Some(rest) = text.strip_prefix('\n').or_else(|| text.strip_prefix("\r\n")) {
        return Some((rest, LineBreaks(0)));
    }
    let after = text.trim_start_matches('\\');
    let slashes = text.len() - after.len();
    let after = match after.strip_prefix('r') {
        Some(rest) => rest.strip_prefix(&text[..slashes])?,
        None => after,
    };
    after.strip_prefix('n').filter(|_| slashes > 0).map(|rest| (rest, LineBreaks(slashes)))
}

/// Strips one line that has the shape of our lines. Returns an empty string if the text is cut off within
/// that line, and `None` for any other line.
fn strip_line(text: &str, breaks: LineBreaks) -> Option<&str> {
    if let Some(after) = FENCE_HINTS.iter().find_map(|hint| text.strip_prefix(hint)) {
        return Some(after);
    }
    if !text.is_empty() && FENCE_HINTS.iter().any(|hint| hint.starts_with(text)) {
        // The trace is cut off within the line.
        return Some("");
    }
    let fits = |(shape, byte): (&u8, u8)| match shape {
        b'x' => byte.is_ascii_hexdigit(),
        b'9' => byte.is_ascii_digit(),
        other => *other == byte,
    };
    let fitting = LINE_SHAPE.iter().zip(text.bytes()).take_while(|pair| fits(*pair)).count();
    if fitting < LINE_SHAPE.len() {
        // A truncated trace may end within the line.
        return (fitting > 0 && fitting == text.len()).then_some("");
    }
    let title = &text[LINE_SHAPE.len()..];
    // Escaping makes a character longer: `&quot;`, or `\u00fc` with its backslash doubled.
    let chars_max = TITLE_CHARS_MAX * (2 + 6 * breaks.0);
    title_end(title, breaks, chars_max).map(|end| &title[end..])
}

/// Returns the offset at which a title ends: at a line break, or at the quote that closes the surrounding
/// string. Quotes within the title have more backslashes than that closing quote. Returns `None` if the title
/// is too long.
fn title_end(title: &str, breaks: LineBreaks, chars_max: usize) -> Option<usize> {
    let quote_slashes = (2 * breaks.0).saturating_sub(1);
    let mut slashes = 0;
    for (nth, (at, c)) in title.char_indices().enumerate() {
        if c == '\n' {
            return Some(at);
        }
        let ends = match c {
            'n' => slashes > 0 && slashes == breaks.0,
            '"' => slashes < quote_slashes,
            _ => false,
        };
        if ends {
            return Some(at - slashes);
        }
        if nth >= chars_max {
            return None;
        }
        slashes = if c == '\\' { slashes + 1 } else { 0 };
    }
    Some(title.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::derive_uuid;

    fn block(titles: &[&str]) -> String {
        let line = |title: &&str| {
            let id = MemoryId(derive_uuid("memory", &[title]));
            render_line(id, Weight::from_thousandths(300), title) + "\n"
        };
        let lines: String = titles.iter().map(line).collect();
        format!("{FENCE_BEGIN}\n{lines}{FENCE_END}")
    }

    fn check(text: &str, stripped: &str) {
        assert_eq!(strip_injected(text).as_deref(), Some(stripped), "from {text:?}");
    }

    #[test]
    fn a_block_contains_ids_weights_and_titles() {
        let id = MemoryId(derive_uuid("memory", &["List the tables first"])).short_id();
        assert_eq!(id.len(), crate::id::SHORT_ID_DIGITS);
        let text = format!("{FENCE_BEGIN}\n- [{id}] (0.300) List the tables first\n{FENCE_END}");
        assert_eq!(block(&["List the tables first"]), text);
    }

    #[test]
    fn every_block_is_stripped_and_everything_else_stays() {
        let block = block(&["one", "two \\n \"quoted\" ünd \\"]);
        check(&format!("before\n{block}\nafter"), "before\n\nafter");
        check(&format!("a{block}b{block}c"), "abc");
        check(&block.replace('\n', "\r\n"), "");
        check(&format!("> {}", block.replace('\n', "\n > ")), "> ");
        assert_eq!(strip_injected("nothing of ours: RETROSPECT MEMORIES, <<<"), None);
    }

    #[test]
    fn a_block_within_strings_within_strings_is_stripped() {
        let say = |text: &str| serde_json::json!({ "say": text, "cmd": "ls" }).to_string();
        let block = block(&["one", "a \"quoted\" path C:\\new \\ and a \\n"]);
        let (mut text, mut stripped) = (format!("x\n{block}\ny"), "x\n\ny".to_owned());
        for _ in 0..3 {
            (text, stripped) = (say(&text), say(&stripped));
            check(&text, &stripped);
        }
        let html = block.replace('<', "&lt;").replace('>', "&gt;");
        check(&html, "");
        let careful = say(&block).replace('<', "\\u003c").replace('>', "\\u003E");
        check(&careful, &say(""));
        check(&say(&careful), &say(&say("")));
    }

    #[test]
    fn a_single_begin_mark_removes_only_lines_of_our_shape() {
        let block = block(&["one", "two"]);
        let open = block.strip_suffix(FENCE_END).unwrap();
        check(&format!("{open}rm -rf /\nerror: no"), "\nrm -rf /\nerror: no");
        check(&format!("{FENCE_BEGIN}\nrm -rf /"), "\nrm -rf /");
        check(&format!("{FENCE_BEGIN} rm -rf /"), " rm -rf /");
        check(&format!("{FENCE_BEGIN}\n- rm -rf /\nerror: no"), "\n- rm -rf /\nerror: no");
        let json = serde_json::json!([open.trim_end(), "rm -rf /"]).to_string();
        check(&json, r#"["","rm -rf /"]"#);
        let long = format!("{open}- [8aad0cee] (0.300) {}", "rm ".repeat(1000));
        assert!(strip_injected(&long).unwrap().contains("rm rm"), "longer than any title of ours");
        let whole_id = format!("{FENCE_BEGIN}\n- [{}] (0.300) rm -rf /", derive_uuid("memory", &["x"]));
        assert!(strip_injected(&whole_id).unwrap().contains("rm -rf"), "ids of ours are short");
    }

    #[test]
    fn two_marks_remove_only_lines_of_our_shape_between_them() {
        check(&format!("{FENCE_BEGIN}\nrm -rf /\n{FENCE_END}"), "\nrm -rf /\n");
        check(&format!("ok {FENCE_END} rm -rf /"), "ok  rm -rf /");
    }

    #[test]
    fn a_truncated_block_is_stripped() {
        let block = block(&["one", "two"]);
        for cut in FENCE_BEGIN.len()..block.len() {
            let left = strip_injected(&block[..cut]).unwrap();
            let of_end_mark = left.strip_prefix('\n').unwrap_or(&left);
            assert!(FENCE_END.starts_with(of_end_mark), "{left:?} is left of {:?}", &block[..cut]);
        }
    }

    #[test]
    fn a_title_can_neither_break_the_line_nor_the_fence() {
        for title in [
            FENCE_END.to_owned(),
            FENCE_BEGIN.to_owned(),
            format!("<<{FENCE_END}"),
            format!("<{FENCE_BEGIN}>>>>"),
            format!("x\n{FENCE_END}\u{2028}\u{85}rm -rf /"),
            "x".repeat(10_000),
            "<".repeat(10_000),
        ] {
            let block = block(&[&title, "last"]);
            assert_eq!(block.lines().count(), 4, "{block}");
            assert_eq!(block.matches("<<<").count(), 2, "{block}");
            check(&format!("a{block}b"), "ab");
        }
    }

    #[test]
    fn thousands_of_false_marks_are_scanned_once() {
        let text = format!("{FENCE_BEGIN}\\n").repeat(20_000) + &"<<<RETROSPECT MEMORIES\n".repeat(20_000);
        assert!(strip_injected(&text).unwrap().len() < text.len());
    }
}
