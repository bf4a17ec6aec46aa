//! The display while it runs: one screen on standard error, repainted each second; nothing at all where that is not a terminal.

use std::io::{IsTerminal, Write as _, stderr};

use super::Second;
use super::text::{aligned, count, time_ms, time_us};

/// Seconds that the small curves show.
const CURVE_SECONDS: usize = 60;
const CURVE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The display of one run.
#[derive(Debug)]
pub struct Live {
    title: String,
    measured_s: u64,
    is_shown: bool,
    /// The last seconds, as many as a curve shows.
    recent: Vec<Second>,
    lines_painted: usize,
}

impl Live {
    /// Paints that it warms up, if standard error is a terminal.
    #[must_use]
    pub fn start(title: &str, measured_s: u64) -> Self {
        let is_shown = stderr().is_terminal();
        let mut live = Self { title: title.to_owned(), measured_s, is_shown, recent: Vec::new(), lines_painted: 0 };
        live.paint();
        live
    }

    /// Takes a second in, and repaints.
    pub fn second(&mut self, second: &Second) {
        if self.recent.len() == CURVE_SECONDS {
            self.recent.remove(0);
        }
        self.recent.push(second.clone());
        self.paint();
    }

    fn paint(&mut self) {
        if !self.is_shown {
            return;
        }
        let lines = screen(&self.title, self.measured_s, &self.recent);
        let text = format!("{}{}\n", self.back(), lines.join("\n"));
        self.lines_painted = lines.len();
        // A display that can't be painted is no reason to stop what it shows.
        let _ = stderr().write_all(text.as_bytes());
    }

    /// The cursor to where the display began, and everything below it gone.
    fn back(&self) -> String {
        match self.lines_painted {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = stderr().write_all(self.back().as_bytes());
        }
    }
}

/// What is painted: lines of less than 80 letters.
fn screen(title: &str, measured_s: u64, recent: &[Second]) -> Vec<String> {
    let title: String = title.chars().take(50).collect();
    let Some(now) = recent.last() else { return vec![format!("{title}  warming up")] };
    let mut lines = vec![format!("{title}  second {} of {measured_s}", now.second + 1), String::new()];
    let rates = [
        ["records/s", "due", "acknowledged", "delivered", "failed", "behind"].map(str::to_owned).to_vec(),
        vec![
            String::new(),
            count(now.due),
            count(now.acknowledged),
            count(now.delivered),
            count(now.failed),
            time_ms(now.behind_ms),
        ],
    ];
    lines.extend(aligned(&rates));
    lines.push(String::new());
    let row = |name: &str, us: [f64; 3]| {
        let mut row = vec![format!("{name:10}")];
        row.extend(us.map(|us| format!("{:>8}", time_us(us))));
        row
    };
    lines.extend(aligned(&[
        ["latency", "p50", "p99", "max"].map(str::to_owned).to_vec(),
        row("produce", [now.produce_p50_us, now.produce_p99_us, now.produce_max_us]),
        row("consume", [now.consume_p50_us, now.consume_p99_us, now.consume_max_us]),
        row("end to end", [now.end_to_end_p50_us, now.end_to_end_p99_us, now.end_to_end_max_us]),
    ]));
    lines.push(String::new());
    let mut curve_of = |name: &str, figure: fn(&Second) -> f64| {
        lines.push(format!("{name:12}  {}", curve(recent.iter().map(figure))));
    };
    curve_of("acknowledged", |second| second.acknowledged as f64);
    curve_of("produce p99", |second| second.produce_p99_us);
    lines
}

/// Values as a row of bars, the highest as high as a line.
fn curve(values: impl Iterator<Item = f64> + Clone) -> String {
    let most = values.clone().fold(0.0, f64::max);
    let bar = |value: f64| match most {
        0.0 => CURVE[0],
        _ => CURVE[((value / most * CURVE.len() as f64) as usize).min(CURVE.len() - 1)],
    };
    values.map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_shows_the_last_second() {
        assert_eq!(screen("run", 30, &[]), ["run  warming up"]);
        let second = |second: u32| Second {
            second,
            due: 1_000_000,
            acknowledged: u64::from(second) * 250_000,
            delivered: 999_000,
            behind_ms: 1.5,
            produce_p50_us: 800.0,
            produce_p99_us: 12_000.0,
            end_to_end_max_us: 2_000_000.0,
            ..Second::default()
        };
        let seconds: Vec<Second> = (0..5).map(second).collect();
        assert_eq!(
            screen("run", 30, &seconds).join("\n"),
            "\
run  second 5 of 30

records/s        due  acknowledged  delivered  failed   behind
           1,000,000     1,000,000    999,000       0  1.50 ms

latency          p50       p99       max
produce       800 µs   12.0 ms   0.00 µs
consume      0.00 µs   0.00 µs   0.00 µs
end to end   0.00 µs   0.00 µs    2.00 s

acknowledged  ▁▃▅▇█
produce p99   █████"
        );
    }

    #[test]
    fn a_screen_is_less_wide_than_a_terminal() {
        let long = Second {
            due: 99_999_999,
            acknowledged: 99_999_999,
            delivered: 99_999_999,
            failed: 99_999_999,
            ..Second::default()
        };
        for line in screen(&"x".repeat(200), 100_000, &vec![long; CURVE_SECONDS]) {
            assert!(line.chars().count() < 80, "{line}");
        }
    }

    #[test]
    fn only_the_last_minute_is_kept() {
        let mut live =
            Live { title: String::new(), measured_s: 100, is_shown: false, recent: Vec::new(), lines_painted: 0 };
        (0..100).for_each(|second| live.second(&Second { second, ..Second::default() }));
        assert_eq!((live.recent.len(), live.recent[0].second), (CURVE_SECONDS, 40));
    }
}
