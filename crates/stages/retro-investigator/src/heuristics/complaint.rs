//! Tells whether a line of an answer reads as a complaint, in the words of several languages. Text that merely
//! mentions an error reads so, too. So this is a weak sign: it counts only together with what the agent did next.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum length of a line that is a complaint, in characters.
const LINE_CHARS_MAX: usize = 400;

static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)\b(?:",
        // English
        r"errors?|fail(?:ed|ure|s)?|fatal|cannot|can['’]t|could ?n[o'’]t|unable|invalid|unknown|missing|denied|refused|rejected|",
        r"(?:not|never) [a-z]+|no (?:such|valid|[\w -]{1,30} available)|un(?:supported|recogni[sz]ed|authori[sz]ed|expected|resolved)|",
        r"forbidden|exceed(?:s|ed)?|out of range|mismatch|conflict|required|must|too (?:large|long|many|small|short|big)|",
        r"does ?n[o'’]t|illegal|malformed|expired|aborted|decommissioned|deprecated|4\d\d|5\d\d|",
        // German
        r"fehler\w*|fehl(?:t|en|geschlagen)|un(?:gültig|zulässig|bekannt|vollständig)\w*|nicht|kein\w*|abgelehnt|verweigert|gesperrt|",
        // French
        r"erreur\w*|échec|échoué\w*|invalide|impossible|introuvable|inconnue?|refusée?|manquante?|interdite?|supérieure?|dépass\w+|n['’]est|n['’]existe|",
        // Spanish, Portuguese, Italian
        r"fall[oó]|inválid[oa]|desconocid[oa]|falta|incorrect[oa]|no existe|no se|rechazad[oa]|denegad[oa]|erro|não|errore|non \w+|mancante",
        r")\b"
    ))
    .expect("constant patterns compile")
});

/// Marks with which a line says that something went well, whatever it names after it.
const SUCCESS_MARKS: [char; 4] = ['✓', '✔', '✅', '☑'];

/// Returns `true` if a line reads as a complaint. One word is a state, and a document has fields for its errors.
pub(super) fn reads_as_complaint(line: &str) -> bool {
    line.chars().count() <= LINE_CHARS_MAX
        && !line.trim_start().starts_with(SUCCESS_MARKS)
        && line.split_whitespace().nth(1).is_some()
        && !line.starts_with(['{', '['])
        && WORDS.is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_known_by_the_words_of_several_languages() {
        for line in [
            "Resource not found.",
            "dfu-util: No DFU capable USB device available",
            "GED-413 : taille de la pièce supérieure au plafond du canal (2 Mo)",
            "Rufnummer nicht im Bestand",
            "LONGITUD INCORRECTA",
            "HTTP ERROR 415 Unsupported Media Type",
        ] {
            assert!(reads_as_complaint(line), "{line}");
        }
        for line in [
            "deployed checkout",
            "Listo: 3 envíos",
            "3/3 bereit",
            "failed",
            "{\"state\": \"not failed\"}",
            "✓ Merged pull request #412 (Fix the unknown host)",
        ] {
            assert!(!reads_as_complaint(line), "{line}");
        }
    }
}
