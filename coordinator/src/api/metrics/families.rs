//! Metrics in the text format of Prometheus.

use std::fmt::{Display, Write as _};

#[derive(Debug, Default)]
pub(super) struct Families(pub String);

impl Families {
    pub fn gauge<V: Display>(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (String, V)>) {
        self.family("gauge", name, help, rows);
    }

    pub fn counter<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (String, V)>,
    ) {
        self.family("counter", name, help, rows);
    }

    /// A gauge without labels.
    pub fn one(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauge(name, help, [(String::new(), value)]);
    }

    fn family<V: Display>(
        &mut self,
        kind: &str,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (String, V)>,
    ) {
        let _ = writeln!(self.0, "# HELP ralph_{name} {help}\n# TYPE ralph_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(self.0, "ralph_{name}{labels} {value}");
        }
    }
}

pub(super) fn label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{value}\"}}")
}
