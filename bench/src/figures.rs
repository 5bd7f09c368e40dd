//! Results of measurements: one value per run, shown as median, minimum and maximum, beside the target, if
//! any.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

/// Required value of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Description of the measurement.
    pub name: String,
    pub unit: String,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: usize,
    /// The median relative to that of another figure, if that is the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// Required value of the ratio, or of the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// A median relative to another one of the same session.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// Name of the other figure.
    pub to: String,
    /// This median divided by the other.
    pub value: f64,
}

#[derive(Debug)]
struct Series {
    name: String,
    unit: &'static str,
    values: Vec<f64>,
    to: Option<String>,
    target: Option<Target>,
}

/// All values, in the order of their names' first values.
#[derive(Debug, Default)]
pub struct Figures(Vec<Series>);

impl Figures {
    /// Adds a value of one run.
    pub fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        eprintln!("  {name}: {} {unit}", shown(value));
        match self.0.iter_mut().find(|series| series.name == name) {
            Some(series) => series.values.push(value),
            None => self.0.push(Series {
                name: name.to_owned(),
                unit,
                values: vec![value],
                to: None,
                target: None,
            }),
        }
    }

    /// Adds a value of one run, and sets the target of its median.
    pub fn at_most(&mut self, name: &str, unit: &'static str, value: f64, most: f64) {
        self.add(name, unit, value);
        self.target(name, Target::AtMost(most));
    }

    /// Sets the target of a figure's median.
    pub fn target(&mut self, name: &str, target: Target) {
        self.expect(name, None, target);
    }

    /// Sets the target of a figure's median, divided by that of `to`.
    pub fn ratio(&mut self, name: &str, to: &str, target: Target) {
        self.expect(name, Some(to.to_owned()), target);
    }

    fn expect(&mut self, name: &str, to: Option<String>, target: Target) {
        if let Some(series) = self.0.iter_mut().find(|series| series.name == name) {
            series.to = to;
            series.target = Some(target);
        }
    }

    pub fn finish(&self) -> Vec<Figure> {
        self.0.iter().map(|series| self.figure(series)).collect()
    }

    fn figure(&self, series: &Series) -> Figure {
        let middle = median(&series.values);
        let ratio = series.to.as_ref().and_then(|to| {
            let other = self.0.iter().find(|other| other.name == *to)?;
            Some(Ratio {
                to: to.clone(),
                value: middle / median(&other.values),
            })
        });
        // Without the other figure, the target can't be checked.
        let judged = match (&series.to, &ratio) {
            (None, _) => Some(middle),
            (Some(_), ratio) => ratio.as_ref().map(|ratio| ratio.value),
        };
        Figure {
            name: series.name.clone(),
            unit: series.unit.to_owned(),
            median: middle,
            min: series.values.iter().copied().fold(f64::INFINITY, f64::min),
            max: series.values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: series.values.len(),
            met: series.target.zip(judged).map(|(target, value)| match target {
                Target::AtMost(most) => value <= most,
                Target::AtLeast(least) => value >= least,
            }),
            ratio,
            target: series.target,
        }
    }
}

/// The middle of `values`, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The nearest rank: of 300 values the 99th percentile is the 297th.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn shown(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints the figures as a table.
pub fn print(figures: &[Figure]) {
    let heads = ["figure", "unit", "median", "min", "max", "runs", "target", ""].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(heads).chain(figures.iter().map(row)).collect();
    let widths: [usize; 8] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    for row in rows {
        let cells = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                2..6 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            });
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

fn row(figure: &Figure) -> [String; 8] {
    let what = match &figure.ratio {
        Some(ratio) => format!("{:.2} × {}, ", ratio.value, ratio.to),
        None => String::new(),
    };
    let target = figure.target.map(|target| match target {
        Target::AtMost(most) => format!("{what}≤ {}", shown(most)),
        Target::AtLeast(least) => format!("{what}≥ {}", shown(least)),
    });
    let met = figure.met.map(|met| if met { "met" } else { "MISSED" });
    [
        figure.name.clone(),
        figure.unit.clone(),
        shown(figure.median),
        shown(figure.min),
        shown(figure.max),
        figure.runs.to_string(),
        target.unwrap_or_default(),
        met.unwrap_or_default().to_owned(),
    ]
}

/// Writes the figures as a JSON array.
pub fn write(figures: &[Figure], path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    fs::write(path, serde_json::to_vec_pretty(figures)?)
        .with_context(|| format!("failed to write the results to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_those_of_the_sorted_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let values: Vec<f64> = (1..=300).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 150.0);
        assert_eq!(percentile(&values, 99), 297.0);
    }

    #[test]
    fn a_ratio_compares_medians_and_needs_both_figures() {
        let mut figures = Figures::default();
        for value in [10.0, 30.0, 20.0] {
            figures.add("ours", "1/s", value);
        }
        figures.ratio("ours", "theirs", Target::AtLeast(2.5));
        assert_eq!(figures.finish()[0].met, None);
        figures.add("theirs", "1/s", 8.0);
        let ours = &figures.finish()[0];
        assert_eq!(ours.met, Some(true));
        assert_eq!(ours.ratio.as_ref().map(|r| r.value), Some(2.5));
    }
}
