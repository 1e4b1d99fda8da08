//! The three kinds of instruments. Each is made when it is used first, by the provider that is installed then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use opentelemetry::metrics::{Counter, Histogram, Meter, ObservableGauge};
use opentelemetry::{KeyValue, global};

/// The scope under which everything is measured.
const SCOPE: &str = "retro";

/// What an instrument measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something that happens, counted.
    Count,
    /// How something is spread: a histogram.
    Spread,
    /// How something stands now.
    Level,
}

/// What is told about an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// Its name over OTLP.
    pub name: &'static str,
    /// What it measures.
    pub kind: Kind,
    /// Its unit, as UCUM writes it; a word in braces is what is counted.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, for whoever reads it.
    pub says: &'static str,
}

impl Described {
    /// Its name as Prometheus has it: the unit is part of it, and what only grows ends in `_total`.
    pub fn prometheus_name(&self) -> String {
        let name = self.name.replace('.', "_");
        let unit = match self.unit {
            "s" => "_seconds",
            "By" => "_bytes",
            "1" => "_ratio",
            _ => "",
        };
        let end = if self.kind == Kind::Count { "_total" } else { "" };
        format!("{name}{unit}{end}")
    }
}

/// Something that happens, counted since the process began. `LABELS` is how many labels it has.
#[derive(Debug)]
pub struct Count<const LABELS: usize> {
    described: Described,
    counter: OnceLock<Counter<u64>>,
}

impl<const LABELS: usize> Count<LABELS> {
    pub(crate) const fn new(described: Described) -> Self {
        Self { described, counter: OnceLock::new() }
    }

    /// It happened so many times. The labels' values, in the order of their names.
    pub fn add(&self, times: u64, labels: [&'static str; LABELS]) {
        self.counter().add(times, &self.described.keyed(labels));
    }

    fn counter(&self) -> &Counter<u64> {
        let Described { name, unit, says, .. } = self.described;
        let make = || meter().u64_counter(name).with_unit(unit).with_description(says).build();
        self.counter.get_or_init(make)
    }
}

/// How something is spread. `LABELS` is how many labels it has.
#[derive(Debug)]
pub struct Spread<const LABELS: usize> {
    described: Described,
    bounds: &'static [f64],
    histogram: OnceLock<Histogram<f64>>,
}

impl<const LABELS: usize> Spread<LABELS> {
    pub(crate) const fn new(described: Described, bounds: &'static [f64]) -> Self {
        Self { described, bounds, histogram: OnceLock::new() }
    }

    /// One value, in the instrument's unit. The labels' values, in the order of their names.
    pub fn record(&self, value: f64, labels: [&'static str; LABELS]) {
        self.histogram().record(value, &self.described.keyed(labels));
    }

    fn histogram(&self) -> &Histogram<f64> {
        let Described { name, unit, says, .. } = self.described;
        self.histogram.get_or_init(|| {
            let meter = meter();
            let builder = meter.f64_histogram(name).with_unit(unit).with_description(says);
            builder.with_boundaries(self.bounds.to_vec()).build()
        })
    }
}

/// How something stands, as it was seen last. `LABELS` is how many labels it has.
#[derive(Debug)]
pub struct Level<const LABELS: usize> {
    described: Described,
    seen: Mutex<BTreeMap<[&'static str; LABELS], f64>>,
    gauge: OnceLock<ObservableGauge<f64>>,
}

impl<const LABELS: usize> Level<LABELS> {
    pub(crate) const fn new(described: Described) -> Self {
        Self { described, seen: Mutex::new(BTreeMap::new()), gauge: OnceLock::new() }
    }

    /// It stands so, until it is shown again or hidden. The labels' values, in the order of their names.
    pub fn show(&'static self, labels: [&'static str; LABELS], value: f64) {
        self.seen().insert(labels, value);
        self.gauge();
    }

    /// These are all there are; what was shown before under other labels is hidden.
    pub fn show_all(&'static self, all: impl IntoIterator<Item = ([&'static str; LABELS], f64)>) {
        *self.seen() = all.into_iter().collect();
        self.gauge();
    }

    /// Nobody knows how it stands: it is absent until it is shown again.
    pub fn hide(&self, labels: [&'static str; LABELS]) {
        self.seen().remove(&labels);
    }

    fn gauge(&'static self) {
        let Described { name, unit, says, .. } = self.described;
        self.gauge.get_or_init(|| {
            let meter = meter();
            let builder = meter.f64_observable_gauge(name).with_unit(unit).with_description(says);
            let told = builder.with_callback(|observer| {
                for (labels, value) in self.seen().iter() {
                    observer.observe(*value, &self.described.keyed(*labels));
                }
            });
            told.build()
        });
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<[&'static str; LABELS], f64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Described {
    fn keyed<const LABELS: usize>(&self, values: [&'static str; LABELS]) -> [KeyValue; LABELS] {
        std::array::from_fn(|nth| KeyValue::new(self.labels[nth], values[nth]))
    }
}

fn meter() -> Meter {
    global::meter(SCOPE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ALL;

    #[test]
    fn every_instrument_is_named_once_says_what_it_is_and_has_a_unit() {
        let names: BTreeSet<_> = ALL.iter().map(|one| one.prometheus_name()).collect();
        assert_eq!(names.len(), ALL.len(), "two have one name");
        for Described { name, unit, says, .. } in ALL {
            assert!(says.ends_with('.') && says.len() > 20, "{name}: {says}");
            assert!(!unit.is_empty(), "{name}");
            let named_well =
                |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(name.split('.').all(named_well), "{name}");
        }
    }

    #[test]
    fn no_label_is_made_for_who_or_which() {
        let forbidden = ["tenant", "workflow", "run", "memory", "event", "retrospective", "user", "id"];
        for Described { name, labels, .. } in ALL {
            for label in *labels {
                let last = label.rsplit(['.', '_']).next().unwrap();
                assert!(!forbidden.contains(&last), "{name} has the label {label}");
            }
        }
    }

    #[test]
    fn the_unit_is_part_of_the_name() {
        let described =
            |kind, unit| Described { name: "retro.outbox.age", kind, unit, labels: &[], says: "" };
        assert_eq!(described(Kind::Level, "s").prometheus_name(), "retro_outbox_age_seconds");
        assert_eq!(described(Kind::Count, "{message}").prometheus_name(), "retro_outbox_age_total");
        assert_eq!(described(Kind::Count, "By").prometheus_name(), "retro_outbox_age_bytes_total");
    }

    #[test]
    fn without_a_provider_measuring_does_nothing() {
        crate::RUNS_COUNTED.add(1, ["counted"]);
        crate::OUTBOX_UNSENT.show([], 1.0);
        crate::OUTBOX_UNSENT.hide([]);
        assert!(crate::OUTBOX_UNSENT.seen().is_empty());
    }
}
