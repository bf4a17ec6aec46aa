//! Drawings of lines as inline SVG: self-contained, no script, readable in light and dark by the colours of the page's style sheet.
//! Pure.
//!
//! The style sheet gives each line its colour by its class, `s0` to `s7`; a drawing names no colour itself.

use std::fmt::Write as _;

use super::text::escaped;

/// How many lines are told apart by their colour; more begin anew, with dashes.
pub const COLOURS: usize = 8;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;

/// One line of a drawing.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    pub name: String,
    /// In the axes' own units, from left to right; where a point is missing there is none.
    pub points: Vec<(f64, f64)>,
    /// Said of a point where the pointer rests on it: as many as points, or none.
    pub notes: Vec<String>,
}

/// How an axis divides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    Linear,
    /// Powers of ten; nothing at or below 0 is shown.
    Log,
    /// The decades of what is left to 1: 0 %, 90 %, 99 %, …; values are shares below 1.
    Nines,
}

/// A drawing.
#[derive(Clone, Debug)]
pub struct Plot<'a> {
    pub title: &'a str,
    pub x_label: &'a str,
    pub y_label: &'a str,
    pub x: Scale,
    pub y: Scale,
    pub lines: &'a [Line],
    /// How a value of the vertical axis is written.
    pub y_text: fn(f64) -> String,
}

impl Scale {
    /// Where a value stands before it is fitted into the drawing; `None` for one that can't be shown.
    fn place(self, value: f64) -> Option<f64> {
        let place = match self {
            Self::Linear => value,
            Self::Log if value > 0.0 => value.log10(),
            Self::Nines if value < 1.0 => -(1.0 - value).log10(),
            Self::Log | Self::Nines => return None,
        };
        place.is_finite().then_some(place)
    }
}

/// From the least place to the greatest, with something between them.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let places: Vec<f64> = values.filter_map(|value| scale.place(value)).collect();
        let least = places.iter().copied().fold(f64::INFINITY, f64::min);
        let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least > most { (0.0, 1.0) } else { (least, most) };
        match scale {
            // A rate is judged by its height above nothing.
            Scale::Linear => Self { least: least.min(0.0), most: if most > 0.0 { most * 1.05 } else { 1.0 } },
            Scale::Log => Self { least: least.floor(), most: most.ceil().max(least.floor() + 1.0) },
            Scale::Nines => Self { least: 0.0, most: most.ceil().max(1.0) },
        }
    }

    /// From 0 to 1.
    fn share(self, place: f64) -> f64 {
        (place - self.least) / (self.most - self.least)
    }

    /// Places that get a line across, as the values they stand for.
    fn ticks(self, scale: Scale) -> Vec<f64> {
        match scale {
            Scale::Linear => {
                let step = round_step((self.most - self.least) / 6.0);
                let first = (self.least / step).ceil() as i64;
                (first..).map(|count| count as f64 * step).take_while(|at| *at <= self.most).collect()
            }
            Scale::Log => (self.least as i32..=self.most as i32).map(|power| 10f64.powi(power)).collect(),
            Scale::Nines => (0..=self.most as i32).map(|nines| 1.0 - 10f64.powi(-nines)).collect(),
        }
    }
}

/// The next 1, 2 or 5 with its power of ten.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= rough * 0.999_999).unwrap_or(10.0 * power)
}

/// `99.99%`, with as many nines as there are.
#[must_use]
pub fn nines(share: f64) -> String {
    let places = (-(1.0 - share).log10()).round().max(2.0) as usize - 2;
    format!("{:.places$}%", share * 100.0)
}

impl Plot<'_> {
    /// The drawing with its legend, for a page.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = Range::of(self.x, points().map(|point| point.0));
        let y = Range::of(self.y, points().map(|point| point.1));
        let mut out = format!("<figure class=\"plot\"><figcaption>{}</figcaption>", escaped(self.title));
        self.legend(&mut out);
        write!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escaped(self.title))
            .expect("text");
        self.axes(&mut out, x, y);
        for (index, line) in self.lines.iter().enumerate() {
            self.line(&mut out, index, line, (x, y));
        }
        out.push_str("</svg></figure>\n");
        out
    }

    fn legend(&self, out: &mut String) {
        out.push_str("<div class=\"legend\">");
        for (index, line) in self.lines.iter().enumerate() {
            write!(out, "<span class=\"{}\"><i></i>{}</span>", class(index), escaped(&line.name)).expect("text");
        }
        out.push_str("</div>");
    }

    fn axes(&self, out: &mut String, x: Range, y: Range) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks(self.y) {
            let Some(at) = self.y.place(tick).map(|place| down(y, place)) else { continue };
            let text = escaped(&(self.y_text)(tick));
            write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            )
            .expect("text");
        }
        // Seconds are whole.
        for tick in x.ticks(self.x).into_iter().filter(|tick| self.x != Scale::Linear || tick.fract() == 0.0) {
            let Some(at) = self.x.place(tick).map(|place| across(x, place)) else { continue };
            let text = if self.x == Scale::Nines { nines(tick) } else { super::text::count(tick as u64) };
            write!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            )
            .expect("text");
        }
        write!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            escaped(self.x_label),
            f64::midpoint(TOP, bottom),
            escaped(self.y_label)
        )
        .expect("text");
    }

    fn line(&self, out: &mut String, index: usize, line: &Line, (x, y): (Range, Range)) {
        let class = class(index);
        let at = |point: &(f64, f64)| Some((across(x, self.x.place(point.0)?), down(y, self.y.place(point.1)?)));
        let placed: Vec<Option<(f64, f64)>> = line.points.iter().map(at).collect();
        // A point that can't be shown breaks the line.
        for run in placed.split(Option::is_none).filter(|run| !run.is_empty()) {
            let mut run: Vec<String> = run.iter().flatten().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            // A point by itself is a line to where it is: nothing is drawn for less.
            if let [alone] = run.as_slice() {
                run.push(alone.clone());
            }
            write!(out, "<polyline class=\"{class}\" points=\"{}\"/>", run.join(" ")).expect("text");
        }
        for ((x, y), note) in placed.iter().zip(&line.notes).filter_map(|(place, note)| Some(((*place)?, note))) {
            write!(
                out,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{}</title></circle>",
                escaped(note)
            )
            .expect("text");
        }
    }
}

/// The classes of a line.
fn class(index: usize) -> String {
    let dashed = if index >= COLOURS { " dashed" } else { "" };
    format!("s{}{dashed}", index % COLOURS)
}

fn across(range: Range, place: f64) -> f64 {
    LEFT + range.share(place) * (WIDTH - LEFT - RIGHT)
}

fn down(range: Range, place: f64) -> f64 {
    HEIGHT - BOTTOM - range.share(place) * (HEIGHT - BOTTOM - TOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: &[f64]) -> Vec<f64> {
        Range::of(scale, values.iter().copied()).ticks(scale)
    }

    #[test]
    fn axes_divide_at_round_values() {
        assert_eq!(ticks(Scale::Linear, &[3.0, 100.0]), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(Scale::Linear, &[]), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(Scale::Log, &[0.0, 3.0, 250.0]), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(Scale::Log, &[10.0]), [10.0, 100.0]);
        let texts: Vec<String> = ticks(Scale::Nines, &[0.0, 0.999]).into_iter().map(nines).collect();
        assert_eq!(texts, ["0%", "90%", "99%", "99.9%"]);
        assert_eq!(nines(0.999_99), "99.999%");
    }

    #[test]
    fn lines_stand_where_their_values_are() {
        let points = vec![(0.0, 1.0), (0.9, 10.0), (0.95, 0.0), (0.99, 100.0)];
        let notes = points.iter().map(|point| format!("{} <ms>", point.1)).collect();
        let lines = [Line { name: "a & b".into(), points, notes }];
        let plot = Plot {
            title: "t",
            x_label: "x",
            y_label: "y",
            x: Scale::Nines,
            y: Scale::Log,
            lines: &lines,
            y_text: |value| format!("{value} ms"),
        };
        let svg = plot.svg();
        // The lowest at the lower left, the highest at the upper right; what has no logarithm breaks the line.
        assert!(svg.contains("<polyline class=\"s0\" points=\"76.0,256.0 410.0,135.0\"/>"), "{svg}");
        assert!(svg.contains("<polyline class=\"s0\" points=\"744.0,14.0 744.0,14.0\"/>"), "{svg}");
        assert!(svg.contains("a &amp; b") && svg.contains("<title>100 &lt;ms&gt;</title>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains(">99%</text>") && svg.contains(">100 ms</text>"), "{svg}");
    }

    #[test]
    fn more_lines_than_colours_are_told_apart_by_dashes() {
        assert_eq!((class(0), class(7), class(9)), ("s0".into(), "s7".into(), "s1 dashed".into()));
    }
}
