//! Parses the Prometheus text format (0.0.4) strictly: unknown and repeated parts fail the test.

use std::collections::{BTreeMap, BTreeSet};

use retro_telemetry::metrics::{ALL, InstrumentInfo, Kind};

/// The exporter's metric with the attributes of the process.
const TARGET_INFO: &str = "target_info";

/// The metrics of one process.
#[derive(Debug)]
pub(super) struct ScrapedMetrics {
    /// Values by metric name and label values, sorted by label name.
    values: BTreeMap<(String, Vec<String>), f64>,
}

impl ScrapedMetrics {
    /// Parses a scrape. Panics with the first invalid line.
    pub(super) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no newline");
        let (mut values, mut families) = (BTreeMap::new(), BTreeSet::new());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (name, help) =
                line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).expect(line);
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.unwrap_or_else(|| panic!("{name} has no type after its help"));
            assert!(families.insert(name.to_owned()), "{name} occurs in two places");
            let family = find_instrument(name);
            if name != TARGET_INFO {
                let known = family.unwrap_or_else(|| panic!("{name} is not in the catalogue"));
                assert_eq!((kind, help), (&*known.kind.to_string(), known.description), "{name}");
            }
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let (key, value) = parse_sample(name, kind, family, sample);
                assert!(values.insert(key, value).is_none(), "repeated sample: {sample}");
            }
        }
        Self { values }
    }

    /// Returns a value by metric name and label values, sorted by label name.
    pub(super) fn find_value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.values.get(&(name.to_owned(), labels)).copied()
    }

    /// Returns the sum of all values of a metric.
    pub(super) fn sum_values(&self, name: &str) -> f64 {
        self.values.iter().filter(|((known, _), _)| known == name).map(|(_, value)| value).sum()
    }
}

/// Returns the instrument with this metric name, which may be a part of a histogram.
pub(super) fn find_instrument(name: &str) -> Option<&'static InstrumentInfo> {
    let ends = ["", "_bucket", "_sum", "_count"];
    ALL.iter().find(|one| {
        let own = one.prometheus_name();
        let ends = if one.kind == Kind::Histogram { &ends[..] } else { &ends[..1] };
        ends.iter().any(|end| name.strip_suffix(end) == Some(own.as_str()))
    })
}

/// Returns the names of the program's metrics in an expression.
pub(super) fn metric_names_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let labels: BTreeSet<String> =
        ALL.iter().flat_map(|one| one.labels).map(|label| label.replace('.', "_")).collect();
    let ours = |word: &str| ["retro_", "messaging_", "process_"].iter().any(|begin| word.starts_with(begin));
    words.filter(move |word| ours(word) && !labels.contains(*word))
}

fn parse_sample(
    family: &str,
    kind: &str,
    info: Option<&InstrumentInfo>,
    sample: &str,
) -> ((String, Vec<String>), f64) {
    let (metric, value) = sample.rsplit_once(' ').expect(sample);
    let (name, labels) = match metric.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').expect(sample)),
        None => (metric, ""),
    };
    let end = name.strip_prefix(family).unwrap_or_else(|| panic!("{sample} is not of {family}"));
    let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    assert!(ends.contains(&end), "{sample} is no {kind}");
    let mut values = BTreeMap::new();
    for pair in labels.split("\",").filter(|pair| !pair.is_empty()) {
        let (label, value) = pair.split_once("=\"").expect(sample);
        let allowed = info.is_none_or(|one| {
            one.labels.iter().any(|known| known.replace('.', "_") == label)
                || (label == "le" && end == "_bucket")
        });
        assert!(allowed, "{sample} has the unknown label {label}");
        assert!(values.insert(label, value.trim_end_matches('"').to_owned()).is_none(), "{sample}");
    }
    let value = value.parse().unwrap_or_else(|error| panic!("{sample}: {error}"));
    ((name.to_owned(), values.into_values().collect()), value)
}
