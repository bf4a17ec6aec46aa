//! Which key a record has, and which partition it goes to for it.

use base::{PartitionIndex, Random};

use crate::workload::{KeyShape, unit};

/// Draws keys.
pub struct Keys {
    shape: Shape,
    count: u64,
    text: Vec<u8>,
}

enum Shape {
    Uniform,
    Zipf(Zipf),
}

impl Keys {
    /// `None` where records have no keys.
    #[must_use]
    pub fn new(shape: KeyShape, count: u64, bytes: usize) -> Option<Self> {
        let shape = match shape {
            KeyShape::None => return None,
            KeyShape::Uniform => Shape::Uniform,
            KeyShape::Zipf { skew } => Shape::Zipf(Zipf::new(count, skew)),
        };
        Some(Self { shape, count, text: vec![b'0'; bytes] })
    }

    /// The next key: its rank as a decimal number with zeros before it, or as 8 bytes where there is no room for the digits.
    pub fn draw(&mut self, random: &mut Random) -> &[u8] {
        let rank = match &self.shape {
            Shape::Uniform => random.below(self.count),
            Shape::Zipf(zipf) => zipf.draw(random) - 1,
        };
        if self.text.len() < 14 {
            let at = self.text.len() - 8;
            self.text[at..].copy_from_slice(&rank.to_be_bytes());
            return &self.text;
        }
        let mut rest = rank;
        for digit in self.text.iter_mut().rev().take(14) {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.text
    }
}

/// The partition that Java's clients choose for a key.
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> PartitionIndex {
    record::partition_for_key(key, i32::try_from(partitions).unwrap_or(i32::MAX))
}

/// Ranks from 1 to `count`, rank `k` as often as `1 / k^skew`: rejection inversion (Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", 1996), which needs no table.
struct Zipf {
    count: f64,
    skew: f64,
    /// The integral of the hat at its two ends.
    from: f64,
    to: f64,
    /// A draw this near to its rank is taken without computing the hat.
    near: f64,
}

impl Zipf {
    fn new(count: u64, skew: f64) -> Self {
        let mut zipf = Self { count: count as f64, skew, from: 0.0, to: 0.0, near: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    fn hat(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// An antiderivative of the hat: `(x^(1 - skew) - 1) / (1 - skew)`, or the logarithm where the skew is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.skew) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { power.exp_m1() / (1.0 - self.skew) }
    }

    fn inverse(&self, y: f64) -> f64 {
        let scaled = (y * (1.0 - self.skew)).max(-1.0);
        if scaled.abs() < 1e-8 { (y * (1.0 - scaled / 2.0)).exp() } else { (scaled.ln_1p() / (1.0 - self.skew)).exp() }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let y = self.to + unit(random) * (self.from - self.to);
            let x = self.inverse(y);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.near || y >= self.integral(rank + 0.5) - self.hat(rank) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_as_often_as_their_shape_says() {
        const DRAWS: usize = 200_000;
        for (shape, share) in [
            (KeyShape::Uniform, (|_| 1.0 / 10.0) as fn(usize) -> f64),
            (KeyShape::Zipf { skew: 1.0 }, |rank| 1.0 / rank as f64 / 2.928_968_3),
            (KeyShape::Zipf { skew: 2.0 }, |rank| 1.0 / (rank * rank) as f64 / 1.549_767_7),
            (KeyShape::Zipf { skew: 0.0 }, |_| 1.0 / 10.0),
        ] {
            let mut keys = Keys::new(shape, 10, 16).expect("keys");
            let (mut random, mut counts) = (Random::new(5), [0usize; 10]);
            for _ in 0..DRAWS {
                let key = std::str::from_utf8(keys.draw(&mut random)).expect("digits");
                counts[key.parse::<usize>().expect("a rank")] += 1;
            }
            for (index, count) in counts.iter().enumerate() {
                let (seen, expected) = (*count as f64 / DRAWS as f64, share(index + 1));
                assert!((seen - expected).abs() < 0.004, "{shape:?}, rank {}: {seen} for {expected}", index + 1);
            }
        }
        assert!(Keys::new(KeyShape::None, 10, 16).is_none());
    }

    #[test]
    fn short_keys_differ_too() {
        let (mut keys, mut random) = (Keys::new(KeyShape::Uniform, 1 << 40, 8).expect("keys"), Random::new(1));
        let drawn: std::collections::BTreeSet<Vec<u8>> = (0..100).map(|_| keys.draw(&mut random).to_vec()).collect();
        assert_eq!(drawn.len(), 100);
    }
}
