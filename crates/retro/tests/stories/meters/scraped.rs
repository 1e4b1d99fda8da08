//! A strict reader of Prometheus' text format (0.0.4): what it does not know, or what is told twice, fails the test.

use std::collections::{BTreeMap, BTreeSet};

use retro_meter::{ALL, Described, Kind};

/// What the exporter tells of who measures.
const TARGET: &str = "target_info";

/// What one process told.
#[derive(Debug)]
pub(super) struct Scraped {
    /// By name and labels' values, in the order of the labels' names.
    values: BTreeMap<(String, Vec<String>), f64>,
}

impl Scraped {
    /// Reads it. Panics with the line that is not as it should be.
    pub(super) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is not ended");
        let (mut values, mut families) = (BTreeMap::new(), BTreeSet::new());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (name, help) =
                line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).expect(line);
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.unwrap_or_else(|| panic!("{name} has no type after its help"));
            assert!(families.insert(name.to_owned()), "{name} is told in two places");
            let family = described(name);
            if name != TARGET {
                let known = family.unwrap_or_else(|| panic!("{name} stands in no list"));
                assert_eq!((kind, help), (word(known.kind), known.says), "{name}");
            }
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let (key, value) = read_sample(name, kind, family, sample);
                assert!(values.insert(key, value).is_none(), "told twice: {sample}");
            }
        }
        Self { values }
    }

    /// A value by name and labels' values, in the order of the labels' names.
    pub(super) fn value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.values.get(&(name.to_owned(), labels)).copied()
    }

    /// All values of a name together.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.values.iter().filter(|((known, _), _)| known == name).map(|(_, value)| value).sum()
    }
}

/// The instrument behind a name, also behind a part of a histogram's.
pub(super) fn described(name: &str) -> Option<&'static Described> {
    let ends = ["", "_bucket", "_sum", "_count"];
    ALL.iter().find(|one| {
        let own = one.prometheus_name();
        let ends = if one.kind == Kind::Histogram { &ends[..] } else { &ends[..1] };
        ends.iter().any(|end| name.strip_suffix(end) == Some(own.as_str()))
    })
}

/// Names of ours in an expression.
pub(super) fn names_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let labels: BTreeSet<String> =
        ALL.iter().flat_map(|one| one.labels).map(|label| label.replace('.', "_")).collect();
    let ours = |word: &str| ["retro_", "messaging_", "process_"].iter().any(|begin| word.starts_with(begin));
    words.filter(move |word| ours(word) && !labels.contains(*word))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Histogram => "histogram",
        Kind::Gauge => "gauge",
    }
}

fn read_sample(
    family: &str,
    kind: &str,
    described: Option<&Described>,
    sample: &str,
) -> ((String, Vec<String>), f64) {
    let (told, value) = sample.rsplit_once(' ').expect(sample);
    let (name, labels) = match told.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}').expect(sample)),
        None => (told, ""),
    };
    let end = name.strip_prefix(family).unwrap_or_else(|| panic!("{sample} is not of {family}"));
    let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    assert!(ends.contains(&end), "{sample} is no {kind}");
    let mut values = BTreeMap::new();
    for pair in labels.split("\",").filter(|pair| !pair.is_empty()) {
        let (label, value) = pair.split_once("=\"").expect(sample);
        let allowed = described.is_none_or(|one| {
            one.labels.iter().any(|known| known.replace('.', "_") == label)
                || (label == "le" && end == "_bucket")
        });
        assert!(allowed, "{sample} has the label {label}, which is in no list");
        assert!(values.insert(label, value.trim_end_matches('"').to_owned()).is_none(), "{sample}");
    }
    let value = value.parse().unwrap_or_else(|error| panic!("{sample}: {error}"));
    ((name.to_owned(), values.into_values().collect()), value)
}
