//! What the tests' build does.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Guard, Label, Poison, Side};

/// Who says where something happens.
enum Armed {
    /// The variable, for the whole life of the process.
    AtStart(Moment),
    /// A file, for as long as it is there.
    ByFile(PathBuf),
}

/// Where something happens to the process.
struct Moment {
    label: Label,
    side: Side,
    /// At the how manieth crossing, from 1.
    time: u32,
    crossed: AtomicU32,
}

pub(crate) fn cross(label: Label, side: Side) {
    static CRASH: OnceLock<Option<Armed>> = OnceLock::new();
    static STOP: OnceLock<Option<Armed>> = OnceLock::new();
    if is_now(&STOP, "FAULT_STOP", label, side) {
        kill(Pid::this(), Signal::SIGSTOP).expect("a process may stop itself");
    }
    if is_now(&CRASH, "FAULT_CRASH", label, side) {
        kill(Pid::this(), Signal::SIGKILL).expect("a process may kill itself");
        loop {
            std::thread::park();
        }
    }
}

fn is_now(armed: &OnceLock<Option<Armed>>, name: &str, label: Label, side: Side) -> bool {
    match armed.get_or_init(|| variable(name).map(|text| Armed::read(name, &text))) {
        None => false,
        Some(Armed::AtStart(moment)) => moment.is_at(label, side),
        Some(Armed::ByFile(file)) => {
            std::fs::read_to_string(file).is_ok_and(|text| Moment::read(name, text.trim()).is_at(label, side))
        }
    }
}

pub(crate) fn broken(guard: Guard) -> bool {
    static BROKEN: OnceLock<Option<Guard>> = OnceLock::new();
    *BROKEN.get_or_init(|| {
        variable("FAULT_BREAK").map(|text| named(Guard::ALL, Guard::as_str, &text, "FAULT_BREAK"))
    }) == Some(guard)
}

/// What is poisoned for whom.
struct Poisoned {
    who: String,
    poison: Poison,
    /// Bytes that hold this text.
    text: String,
}

/// Memory that is taken at once: a limit is reached soon. It is never written to, so without a limit only addresses go.
const HOG_BYTES: usize = 64 * 1024 * 1024;

pub(crate) fn poison(who: &str, what: &[u8]) {
    static POISONED: OnceLock<Vec<Poisoned>> = OnceLock::new();
    let all = POISONED.get_or_init(|| {
        let text = variable("FAULT_POISON").unwrap_or_default();
        text.split(',').filter(|one| !one.is_empty()).map(Poisoned::read).collect()
    });
    match all.iter().find(|one| one.who == who && one.is_in(what)).map(|one| one.poison) {
        None => {}
        Some(Poison::Panic) => panic!("a test poisoned this"),
        Some(Poison::Abort) => std::process::abort(),
        Some(Poison::Loop) => loop {
            std::hint::spin_loop();
        },
        Some(Poison::Hog) => loop {
            std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(HOG_BYTES)));
        },
    }
}

impl Poisoned {
    /// `who:poison:text`; the text holds no comma.
    fn read(one: &str) -> Self {
        let mut parts = one.splitn(3, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (Some(who), Some(poison), Some(text)) = (part(), part(), part()) else {
            panic!("FAULT_POISON is who:poison:text, and not {one:?}");
        };
        let poison = named(Poison::ALL, Poison::as_str, poison, "FAULT_POISON");
        Self { who: who.to_owned(), poison, text: text.to_owned() }
    }

    fn is_in(&self, what: &[u8]) -> bool {
        what.windows(self.text.len()).any(|part| part == self.text.as_bytes())
    }
}

pub(crate) fn clock_off_s() -> i64 {
    static OFF_S: OnceLock<i64> = OnceLock::new();
    *OFF_S.get_or_init(|| {
        variable("FAULT_CLOCK").map_or(0, |text| text.parse().expect("FAULT_CLOCK is a number of seconds"))
    })
}

impl Armed {
    fn read(variable: &str, text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(file) => Self::ByFile(PathBuf::from(file)),
            None => Self::AtStart(Moment::read(variable, text)),
        }
    }
}

impl Moment {
    /// Whether this crossing is the one.
    fn is_at(&self, label: Label, side: Side) -> bool {
        (self.label, self.side) == (label, side)
            && self.crossed.fetch_add(1, Ordering::Relaxed) + 1 == self.time
    }

    /// `label:side` or `label:side:time`. A test that names what is not there must fail, so it panics.
    fn read(variable: &str, text: &str) -> Self {
        let mut parts = text.split(':');
        let (label, side) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let time = parts.next().map_or(1, |time| time.parse().expect("the time is a number"));
        Self {
            label: named(Label::ALL, Label::as_str, label, variable),
            side: named(Side::ALL, Side::as_str, side, variable),
            time,
            crossed: AtomicU32::new(0),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn named<T: Copy>(all: &[T], word: fn(T) -> &'static str, text: &str, variable: &str) -> T {
    let found = all.iter().copied().find(|one| word(*one) == text);
    found.unwrap_or_else(|| panic!("{variable} names {text:?}, which is not there"))
}
