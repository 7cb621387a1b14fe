//! The median of several runs, and their range.

use serde::{Deserialize, Serialize};

/// Of one figure, over all repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// The spread of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (middle, last) = (values.len() / 2, values.len() - 1);
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Spread { median, least: values[0], most: values[last] }
    }

    /// Shows all three with `show`.
    pub(crate) fn show(&self, show: impl Fn(f64) -> String) -> String {
        format!("{} ({} to {})", show(self.median), show(self.least), show(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
    }
}
