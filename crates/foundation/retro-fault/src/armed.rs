//! Implements fault injection for builds under test, behind the feature `armed`.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::label::{Guard, Label, Poison, Side};

/// Source of the trigger that makes the process crash or stop.
enum TriggerSource {
    /// The environment variable, whose value applies for the lifetime of the process.
    Variable(CrossingTrigger),
    /// A file, which is read at each crossing as long as it exists.
    File(PathBuf),
}

/// Point at which the process crashes or stops, and the number of the crossing that triggers it.
struct CrossingTrigger {
    label: Label,
    side: Side,
    /// 1-based number of the crossing that triggers.
    nth: u32,
    crossed: AtomicU32,
}

pub(crate) fn cross_point(label: Label, side: Side) {
    static CRASH: OnceLock<Option<TriggerSource>> = OnceLock::new();
    static STOP: OnceLock<Option<TriggerSource>> = OnceLock::new();
    if is_triggered(&STOP, "FAULT_STOP", label, side) {
        kill(Pid::this(), Signal::SIGSTOP).expect("a process can stop itself");
    }
    if is_triggered(&CRASH, "FAULT_CRASH", label, side) {
        kill(Pid::this(), Signal::SIGKILL).expect("a process can kill itself");
        loop {
            // No other code of the program may run before the signal takes effect.
            std::thread::park();
        }
    }
}

fn is_triggered(source: &OnceLock<Option<TriggerSource>>, name: &str, label: Label, side: Side) -> bool {
    match source.get_or_init(|| read_variable(name).map(|text| TriggerSource::parse_source(name, &text))) {
        None => false,
        Some(TriggerSource::Variable(trigger)) => trigger.is_at(label, side),
        Some(TriggerSource::File(file)) => {
            // Read at each crossing, so that a test can arm a running process. Each read starts a new count,
            // so a file can only trigger at the next crossing, not at a later one.
            std::fs::read_to_string(file)
                .is_ok_and(|text| CrossingTrigger::parse_trigger(name, text.trim()).is_at(label, side))
        }
    }
}

pub(crate) fn is_broken(guard: Guard) -> bool {
    static BROKEN: OnceLock<Option<Guard>> = OnceLock::new();
    *BROKEN.get_or_init(|| {
        read_variable("FAULT_BREAK").map(|text| find_by_word(Guard::ALL, Guard::as_str, &text, "FAULT_BREAK"))
    }) == Some(guard)
}

/// A rule that poisons messages of one handler.
struct PoisonRule {
    handler: String,
    poison: Poison,
    /// Text that a message must contain to be poisoned.
    text: String,
}

/// Size of each allocation of a poisoned handler, in bytes: large, to reach a memory limit soon. The memory
/// is never written, so without a limit only address space is used.
const HOG_BYTES: usize = 64 * 1024 * 1024;

pub(crate) fn apply_poison(who: &str, payload: &[u8]) {
    static POISONED: OnceLock<Vec<PoisonRule>> = OnceLock::new();
    let all = POISONED.get_or_init(|| {
        let text = read_variable("FAULT_POISON").unwrap_or_default();
        text.split(',').filter(|rule| !rule.is_empty()).map(PoisonRule::parse_rule).collect()
    });
    match all.iter().find(|rule| rule.handler == who && rule.is_in(payload)).map(|rule| rule.poison) {
        None => {}
        Some(Poison::Panic) => panic!("a test poisoned this message"),
        Some(Poison::Abort) => std::process::abort(),
        Some(Poison::Loop) => loop {
            std::hint::spin_loop();
        },
        Some(Poison::Hog) => loop {
            // `black_box` prevents the compiler from removing the allocation.
            std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(HOG_BYTES)));
        },
    }
}

impl PoisonRule {
    /// Parses `handler:poison:text`; the text must not contain a comma. Panics on anything else, because a test
    /// that misspells its fault must fail.
    fn parse_rule(rule: &str) -> Self {
        let mut parts = rule.splitn(3, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (Some(who), Some(poison), Some(text)) = (part(), part(), part()) else {
            panic!("FAULT_POISON must be handler:poison:text, not {rule:?}");
        };
        let poison = find_by_word(Poison::ALL, Poison::as_str, poison, "FAULT_POISON");
        Self { handler: who.to_owned(), poison, text: text.to_owned() }
    }

    fn is_in(&self, payload: &[u8]) -> bool {
        payload.windows(self.text.len()).any(|part| part == self.text.as_bytes())
    }
}

pub(crate) fn clock_offset_s() -> i64 {
    static OFF_S: OnceLock<i64> = OnceLock::new();
    *OFF_S.get_or_init(|| {
        read_variable("FAULT_CLOCK")
            .map_or(0, |text| text.parse().expect("FAULT_CLOCK must be a number of seconds"))
    })
}

impl TriggerSource {
    fn parse_source(variable: &str, text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(file) => Self::File(PathBuf::from(file)),
            None => Self::Variable(CrossingTrigger::parse_trigger(variable, text)),
        }
    }
}

impl CrossingTrigger {
    /// Counts a crossing of this point, and returns `true` if it is the one that triggers. Ignores crossings of
    /// other points.
    fn is_at(&self, label: Label, side: Side) -> bool {
        (self.label, self.side) == (label, side)
            && self.crossed.fetch_add(1, Ordering::Relaxed) + 1 == self.nth
    }

    /// Parses `label:side` or `label:side:nth`. Panics on anything else, because a test that names an unknown
    /// point must fail.
    fn parse_trigger(variable: &str, text: &str) -> Self {
        let mut parts = text.split(':');
        let (label, side) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let time =
            parts.next().map_or(1, |time| time.parse().expect("the number of the crossing must be a number"));
        Self {
            label: find_by_word(Label::ALL, Label::as_str, label, variable),
            side: find_by_word(Side::ALL, Side::as_str, side, variable),
            nth: time,
            crossed: AtomicU32::new(0),
        }
    }
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn find_by_word<T: Copy>(all: &[T], word: fn(T) -> &'static str, text: &str, variable: &str) -> T {
    let found = all.iter().copied().find(|rule| word(*rule) == text);
    found.unwrap_or_else(|| panic!("{variable} contains the unknown word {text:?}"))
}
