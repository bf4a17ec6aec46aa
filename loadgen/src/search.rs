//! The search for the highest rate that holds. Pure: it is asked what to try next and told what came of it.
//!
//! From the lowest rate it doubles until a rate fails or the highest has held, then halves the gap between the highest that held and
//! the lowest that failed, until that gap is small enough. It takes for granted that what fails at one rate fails above it too.

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    from: f64,
    to: f64,
    /// How far apart, as a part of the lower, the highest that held and the lowest that failed may stay.
    precision: f64,
    held: Option<f64>,
    failed: Option<f64>,
}

/// Bounds between which there is nothing to search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRange(&'static str);

impl std::fmt::Display for NoRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NoRange {}

impl Search {
    /// Between two rates, both included.
    ///
    /// # Errors
    /// There is no rate between them, or the precision is not between 0 and 1.
    pub fn new(from: f64, to: f64, precision: f64) -> Result<Self, NoRange> {
        if !(from >= 1.0 && from.is_finite()) {
            return Err(NoRange("the lowest rate must be 1 record a second or more"));
        }
        if !(to >= from && to.is_finite()) {
            return Err(NoRange("the highest rate must not be below the lowest"));
        }
        if !(precision > 0.0 && precision < 1.0) {
            return Err(NoRange("the precision must be above 0 % and below 100 %"));
        }
        Ok(Self { from, to, precision, held: None, failed: None })
    }

    /// The rate to try next, a whole number; `None` once the search is over.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        let next = match (self.held, self.failed) {
            (None, None) => self.from,
            // Not even the lowest holds.
            (None, Some(_)) => return None,
            (Some(held), None) if held >= self.to => return None,
            (Some(held), None) => (held * 2.0).min(self.to),
            (Some(held), Some(failed)) if failed - held <= held * self.precision => return None,
            (Some(held), Some(failed)) => f64::midpoint(held, failed).round(),
        };
        // Rates that are too near to have a whole number between them are as good as one.
        let is_new = self.held.is_none_or(|held| next > held) && self.failed.is_none_or(|failed| next < failed);
        is_new.then_some(next)
    }

    /// What came of the rate that [`Search::next`] named.
    pub fn record(&mut self, held: bool) {
        let Some(tried) = self.next() else { return };
        if held {
            self.held = Some(tried);
        } else {
            self.failed = Some(tried);
        }
    }

    /// The highest rate that has held so far.
    #[must_use]
    pub fn best(&self) -> Option<f64> {
        self.held
    }

    /// The lowest rate that has failed so far.
    #[must_use]
    pub fn failed(&self) -> Option<f64> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tried where all up to `limit` hold, and the best.
    fn tried(from: f64, to: f64, precision: f64, limit: f64) -> (Vec<f64>, Option<f64>) {
        let mut search = Search::new(from, to, precision).expect("a range");
        let mut rates = Vec::new();
        while let Some(rate) = search.next() {
            rates.push(rate);
            assert!(rates.len() < 100, "the search does not end: {rates:?}");
            search.record(rate <= limit);
        }
        (rates, search.best())
    }

    #[test]
    fn it_doubles_until_a_rate_fails_and_halves_the_gap() {
        for (from, to, precision, limit, rates, best) in [
            (1000.0, 1e6, 0.05, 3100.0, &[1000.0, 2000.0, 4000.0, 3000.0, 3500.0, 3250.0, 3125.0][..], Some(3000.0)),
            (1000.0, 1e6, 0.5, 3100.0, &[1000.0, 2000.0, 4000.0, 3000.0], Some(3000.0)),
            // The lowest fails, the highest holds, the highest is no double of the lowest.
            (1000.0, 1e6, 0.05, 10.0, &[1000.0], None),
            (1000.0, 4000.0, 0.05, 1e9, &[1000.0, 2000.0, 4000.0], Some(4000.0)),
            (1000.0, 3000.0, 0.3, 2900.0, &[1000.0, 2000.0, 3000.0, 2500.0], Some(2500.0)),
            (1000.0, 1000.0, 0.05, 1e9, &[1000.0], Some(1000.0)),
            // So few that there is no whole number between them.
            (1.0, 100.0, 0.001, 2.0, &[1.0, 2.0, 4.0, 3.0], Some(2.0)),
        ] {
            assert_eq!(tried(from, to, precision, limit), (rates.to_vec(), best), "{from} {to} {precision} {limit}");
        }
    }

    #[test]
    fn the_best_is_as_near_to_the_limit_as_was_asked() {
        for limit in (1..200).map(|step| f64::from(step) * 5003.0) {
            for precision in [0.2, 0.05, 0.01] {
                let (_, best) = tried(100.0, 1e7, precision, limit);
                let best = best.expect("the lowest holds");
                assert!(best <= limit && limit < best * (1.0 + precision) + 1.0, "{limit} {precision}: {best}");
            }
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (from, to, precision) in [
            (0.0, 10.0, 0.05),
            (20.0, 10.0, 0.05),
            (f64::NAN, 10.0, 0.05),
            (1.0, f64::INFINITY, 0.05),
            (1.0, 10.0, 0.0),
            (1.0, 10.0, 1.0),
        ] {
            assert!(Search::new(from, to, precision).is_err(), "{from} {to} {precision}");
        }
    }
}
