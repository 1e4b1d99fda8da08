//! Reasons why a text is quarantined, worded for the person who decides about it.

use std::ops::Range;

/// Maximum length of an excerpt, in characters: one line of a report.
const EXCERPT_CHARS_MAX: usize = 100;

/// Strength of a reason: a sure sign or a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// The reason makes a text hostile by itself.
    Sure,
    /// The reason is also common in honest texts, so it counts only together with a nearby hint of another
    /// kind.
    Hint,
}

macro_rules! codes {
    ($($name:ident $code:literal $description:literal)*) => {
        /// Kind of a reason. Codes are stored in rows and reports and never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $description] $name,)* }

        impl Code {
            /// All codes, in the order of the manual.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the code as it is stored.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Describes the code in one sentence for people.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)* }
            }
        }
    };
}

codes! {
    HiddenCharacters "hidden-characters" "Contains characters that are invisible or change the order in which text is displayed."
    MixedScripts "mixed-scripts" "Contains words that mix alphabets to look like other words."
    HiddenText "hidden-text" "Contains prose in a place that people do not see."
    EncodedText "encoded-text" "Contains text that is encoded so that only a machine reads it."
    UnreadLanguage "unread-language" "Contains a sentence in a language that the screen does not support."
    OverridesInstructions "overrides-instructions" "Tells its reader to ignore earlier instructions."
    AssignsRole "assigns-role" "Gives its reader another role or removes limits."
    AddressesModel "addresses-model" "Addresses a language model or an agent instead of the author of the change."
    FalseAuthority "false-authority" "Claims an authority, a mode or a priority that a review does not have."
    AsksForPrompt "asks-for-prompt" "Asks for the instructions or the prompt of its reader."
    AsksForSecrets "asks-for-secrets" "Asks for a password, a key or another secret."
    AsksForPersonalData "asks-for-personal-data" "Asks for personal data."
    AsksForSecrecy "asks-for-secrecy" "Asks to keep something from people."
    DictatesAnswer "dictates-answer" "Dictates what an answer contains or how it is written."
    Errand "errand" "Asks for an action outside the code."
    Exfiltrates "exfiltrates" "Sends data to an external address."
    CommandToRun "command-to-run" "Contains a command or code that does harm when it is run."
    ActiveMarkup "active-markup" "Contains markup that runs when it is displayed."
    ImitatesFrame "imitates-frame" "Imitates the marks around the block that agents are handed."
    PlantsMemory "plants-memory" "Asks to be remembered and repeated whatever the task is."
    WeakensSecurity "weakens-security" "Asks to disable a check, a review or a protection."
    HarmfulTopic "harmful-topic" "Is about causing harm."
    OffTopic "off-topic" "Is not about software."
    HoldsSecret "holds-secret" "Contains what looks like a credential."
    TooLong "too-long" "Is longer than the screen examines."
}

/// Reason why the screen suspects a text, with the place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Kind of the reason.
    pub code: Code,
    /// `Sure` if the reason alone makes the text hostile, `Hint` otherwise.
    pub strength: Strength,
    /// Byte range of the suspicious part in the original text, with both ends on character boundaries.
    pub range: Range<usize>,
    /// Text of this range on one line, shortened, with invisible characters written like `<U+200B>`.
    pub excerpt: String,
}

impl Reason {
    /// Creates a reason for a range, which is widened to whole characters.
    pub(crate) fn new(code: Code, strength: Strength, text: &str, at: Range<usize>) -> Self {
        let at = text.floor_char_boundary(at.start)..text.ceil_char_boundary(at.end);
        let excerpt = format_excerpt(&text[at.clone()]);
        Self { code, strength, range: at, excerpt }
    }

    pub(crate) fn new_sure(code: Code, text: &str, at: Range<usize>) -> Self {
        Self::new(code, Strength::Sure, text, at)
    }

    /// Creates the reason for a text that is too long to screen.
    pub(crate) fn too_long(text: &str) -> Self {
        Self::new_sure(Code::TooLong, text, 0..text.len())
    }

    /// Describes the reason in one sentence for people.
    pub fn description(&self) -> &'static str {
        self.code.description()
    }
}

/// Formats an excerpt for people: no character in it is invisible, breaks the line or changes the colours of
/// a terminal.
fn format_excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (nth, c) in text.chars().enumerate() {
        if nth == EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' | ' ' => shown.push(' '),
            c if c.is_control() || crate::folded::is_invisible(c) => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_invisible_characters_on_one_line() {
        assert_eq!(format_excerpt("a\u{200b}b\nc\u{1b}[1m"), "a<U+200B>b c<U+001B>[1m");
        assert_eq!(format_excerpt(&"é".repeat(500)).chars().count(), EXCERPT_CHARS_MAX + 1);
    }

    #[test]
    fn codes_are_unique_and_have_a_sentence() {
        let codes: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.description().ends_with('.')));
    }
}
