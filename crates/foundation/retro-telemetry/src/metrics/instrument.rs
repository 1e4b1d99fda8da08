//! Provides the three kinds of instruments. An instrument is created at its first use, by the provider that
//! is installed then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use opentelemetry::metrics::{self, Meter, ObservableGauge};
use opentelemetry::{KeyValue, global};

/// OpenTelemetry instrumentation scope of all instruments.
const SCOPE: &str = "retro";

/// Kind of an instrument, written as in the Prometheus text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// Counts occurrences; the value only increases.
    Counter,
    /// Records the distribution of values.
    Histogram,
    /// Reports a current value.
    Gauge,
}

/// Description of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstrumentInfo {
    /// Name sent over OTLP; [`Self::prometheus_name`] derives the Prometheus name from it.
    pub name: &'static str,
    /// Kind of the instrument.
    pub kind: Kind,
    /// Unit in UCUM notation. A word in braces names what is counted.
    pub unit: &'static str,
    /// Names of the labels, in the order in which their values are passed.
    pub labels: &'static [&'static str],
    /// Description of the instrument in one sentence.
    pub description: &'static str,
}

impl InstrumentInfo {
    /// Returns the Prometheus name, which contains the unit. The name of a counter ends in `_total`.
    pub fn prometheus_name(&self) -> String {
        let name = self.name.replace('.', "_");
        let unit = match self.unit {
            "s" => "_seconds",
            "By" => "_bytes",
            "1" => "_ratio",
            _ => "",
        };
        let end = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{name}{unit}{end}")
    }
}

/// A counter of occurrences since the process started. `LABELS` is the number of its labels.
#[derive(Debug)]
pub struct Counter<const LABELS: usize> {
    info: InstrumentInfo,
    counter: OnceLock<metrics::Counter<u64>>,
}

impl<const LABELS: usize> Counter<LABELS> {
    pub(crate) const fn new(info: InstrumentInfo) -> Self {
        Self { info, counter: OnceLock::new() }
    }

    /// Adds a number of occurrences. `labels` are the labels' values, in the order of their names.
    pub fn add(&self, times: u64, labels: [&'static str; LABELS]) {
        self.counter().add(times, &self.info.label_pairs(labels));
    }

    fn counter(&self) -> &metrics::Counter<u64> {
        let InstrumentInfo { name, unit, description, .. } = self.info;
        let make = || global_meter().u64_counter(name).with_unit(unit).with_description(description).build();
        self.counter.get_or_init(make)
    }
}

/// A histogram of the values recorded since the process started. `LABELS` is the number of its labels.
#[derive(Debug)]
pub struct Histogram<const LABELS: usize> {
    info: InstrumentInfo,
    bounds: &'static [f64],
    histogram: OnceLock<metrics::Histogram<f64>>,
}

impl<const LABELS: usize> Histogram<LABELS> {
    pub(crate) const fn new(info: InstrumentInfo, bounds: &'static [f64]) -> Self {
        Self { info, bounds, histogram: OnceLock::new() }
    }

    /// Records one value in the instrument's unit. `labels` are the labels' values, in the order of their names.
    pub fn record(&self, value: f64, labels: [&'static str; LABELS]) {
        self.histogram().record(value, &self.info.label_pairs(labels));
    }

    fn histogram(&self) -> &metrics::Histogram<f64> {
        let InstrumentInfo { name, unit, description, .. } = self.info;
        self.histogram.get_or_init(|| {
            let meter = global_meter();
            let builder = meter.f64_histogram(name).with_unit(unit).with_description(description);
            builder.with_boundaries(self.bounds.to_vec()).build()
        })
    }
}

/// A gauge that reports the value that was set last. `LABELS` is the number of its labels.
#[derive(Debug)]
pub struct Gauge<const LABELS: usize> {
    info: InstrumentInfo,
    values: Mutex<BTreeMap<[&'static str; LABELS], f64>>,
    gauge: OnceLock<ObservableGauge<f64>>,
}

impl<const LABELS: usize> Gauge<LABELS> {
    pub(crate) const fn new(info: InstrumentInfo) -> Self {
        Self { info, values: Mutex::new(BTreeMap::new()), gauge: OnceLock::new() }
    }

    /// Sets the value, which is reported until it is set again or cleared. `labels` are the labels' values, in the
    /// order of their names.
    pub fn set(&'static self, labels: [&'static str; LABELS], value: f64) {
        // Set before the instrument is created, so that its first collection already reports the value.
        self.lock_values().insert(labels, value);
        self.gauge();
    }

    /// Replaces all values. Label sets that are missing from the new values are no longer reported.
    pub fn set_all(&'static self, all: impl IntoIterator<Item = ([&'static str; LABELS], f64)>) {
        *self.lock_values() = all.into_iter().collect();
        self.gauge();
    }

    /// Clears the value, which is then absent until it is set again. An unknown value must be absent, because
    /// a stale one would look healthy.
    pub fn clear(&self, labels: [&'static str; LABELS]) {
        self.lock_values().remove(&labels);
    }

    fn gauge(&'static self) {
        let InstrumentInfo { name, unit, description, .. } = self.info;
        self.gauge.get_or_init(|| {
            let meter = global_meter();
            let builder = meter.f64_observable_gauge(name).with_unit(unit).with_description(description);
            let gauge = builder.with_callback(|observer| {
                for (labels, value) in self.lock_values().iter() {
                    observer.observe(*value, &self.info.label_pairs(*labels));
                }
            });
            gauge.build()
        });
    }

    fn lock_values(&self) -> MutexGuard<'_, BTreeMap<[&'static str; LABELS], f64>> {
        // A panic in another thread must not end the metrics, and the map is consistent at any time.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InstrumentInfo {
    fn label_pairs<const LABELS: usize>(&self, values: [&'static str; LABELS]) -> [KeyValue; LABELS] {
        std::array::from_fn(|nth| KeyValue::new(self.labels[nth], values[nth]))
    }
}

fn global_meter() -> Meter {
    global::meter(SCOPE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::{ALL, OUTBOX_UNSENT, RUNS_COUNTED};

    #[test]
    fn every_instrument_has_a_unique_name_a_description_and_a_unit() {
        let names: BTreeSet<_> = ALL.iter().map(|one| one.prometheus_name()).collect();
        assert_eq!(names.len(), ALL.len(), "two instruments have the same name");
        for InstrumentInfo { name, unit, description, .. } in ALL {
            assert!(description.ends_with('.') && description.len() > 20, "{name}: {description}");
            assert!(!unit.is_empty(), "{name}");
            let named_well =
                |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(name.split('.').all(named_well), "{name}");
        }
    }

    #[test]
    fn no_label_identifies_a_tenant_or_an_object() {
        let forbidden = ["tenant", "workflow", "run", "memory", "event", "retrospective", "user", "id"];
        for InstrumentInfo { name, labels, .. } in ALL {
            for label in *labels {
                let last = label.rsplit(['.', '_']).next().unwrap();
                assert!(!forbidden.contains(&last), "{name} has the label {label}");
            }
        }
    }

    #[test]
    fn the_unit_is_part_of_the_name() {
        let info = |kind, unit| InstrumentInfo {
            name: "retro.outbox.age",
            kind,
            unit,
            labels: &[],
            description: "",
        };
        assert_eq!(info(Kind::Gauge, "s").prometheus_name(), "retro_outbox_age_seconds");
        assert_eq!(info(Kind::Counter, "{message}").prometheus_name(), "retro_outbox_age_total");
        assert_eq!(info(Kind::Counter, "By").prometheus_name(), "retro_outbox_age_bytes_total");
    }

    #[test]
    fn measuring_without_a_provider_does_nothing() {
        RUNS_COUNTED.add(1, ["counted"]);
        OUTBOX_UNSENT.set([], 1.0);
        OUTBOX_UNSENT.clear([]);
        assert!(OUTBOX_UNSENT.lock_values().is_empty());
    }
}
