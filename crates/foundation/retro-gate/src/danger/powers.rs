//! Finds packages that are installed by name, rights of an administrator, and forced commands. The default
//! policy holds none of them.

use std::sync::LazyLock;

use super::kind::Danger::{Force, PackageInstall, Privilege};
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Command, Machine, Phrase};
use super::reading::Reading;

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        (
            PackageInstall,
            Command,
            r"\b(?:MANAGER)(?:['\x22]?\s+with\s+['\x22]?|\s+)(?:-\S+\s+){0,4}(?:[a-z]+\s+)?(?:install|add|i|ci|get|require|in|reinstall|upgrade|sync|restore|dlx|exec|inject|create)\b|\b(?:pacman|yay|paru)\s+-s[a-z]*\s|\bpython[0-9.]*\s+-m\s+pip\s+install\b|\b(?:npx|bunx|pipx\s+run|uvx)\s+[a-z@]|\bgo\s+run\s+\S+@",
        ),
        (
            PackageInstall,
            Phrase,
            r"\b(install|add)\s+(?:the |a |an |its |all |any )?(?:[\w'@/.-]+ ){0,3}?(?:package|packages|dependency|dependencies|module|modules|library|libraries|plugin|plugins|gem|gems|crate|crates|requirements)\b",
        ),
        (
            Privilege,
            Command,
            r"(?:^|[\s'\x22;&|(])(?:sudo|doas|pkexec|gosu|runas|su\s+-|su\s+root|gsudo)(?:['\x22\s;,.)]|$)",
        ),
        (
            Privilege,
            Machine,
            r"(?:^|[\s'\x22])(?:--privileged|--cap-add\S*|--user[= ]root|--user[= ]0|-u\s+(?:root|0)\b|--become|--setuid)|\b(?:become|privileged|allow_?privilege_?escalation|run_?as_?root)['\x22]?\s*[:=]\s*['\x22]?(?:true|yes|1)\b",
        ),
        (
            Privilege,
            Command,
            r"\bchmod\s+(?:-\S+\s+)*(?:0?777|[ugoa]*\+s|4[0-7]{3}|a\+rwx)|\bchown\s+(?:-\S+\s+)*root|\bsetcap\b|\bvisudo\b|\busermod\s+-ag\s+(?:sudo|wheel|docker)",
        ),
        (
            Privilege,
            Phrase,
            r"\b(run|execute|start|call|use|become|log in)\b[^\n.;]{0,60}?\b(?:as (?:an? |the )?(?:root|administrator|admin|superuser)|with (?:root|administrator|admin|elevated) (?:rights|privileges|permissions)|elevated)\b",
        ),
        (
            Force,
            Machine,
            r"(?:^|[\s'\x22])(?:--force(?:-[a-z-]+)?|--overwrite|--hard|--clobber|--allow-overwrite|--yes|--assume-yes)(?:['\x22\s=,.;)]|$)|\b(?:force|overwrite)['\x22]?\s*[:=]\s*['\x22]?(?:true|yes|1)\b",
        ),
        (
            Force,
            Command,
            r"\b(?:git\s+(?:push|checkout|branch|clean|add|rm|tag)|docker\s+rm|ln|cp|mv|rm|make|kubectl|npm)\b['\x22]?[^\n;|&]{0,60}?\s['\x22]?-[a-z]*f[a-z]*\b",
        ),
        (
            Force,
            Phrase,
            r"\b(force(?:-push)?|overwrite)\s+(?:the|a|an|it|its|any|all|push|install|reinstall|rebuild|update)\b",
        ),
    ])
});

/// Finds what the default policy does not hold.
pub(super) fn find_powers(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
}
