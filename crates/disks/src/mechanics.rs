//! Seek, switch and rotation times.
//!
//! Times are whole picoseconds, angles 32-bit fractions of a revolution. The conversions round down as DiskSim's `mech_g1` does: an
//! angle to a time in steps of 2^-20 of a revolution, a time to an angle in steps of 2^-24. Each conversion loses up to a third of a
//! nanosecond at 10,000 rpm. Over 20 minutes of rotation this adds up to tens of microseconds; a result within a microsecond of
//! DiskSim's requires the same rounding.
//!
//! *Sources.* Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994 (seek equation); Lee and Katz, "An
//! analytic performance model of disk arrays", 1993 (three-point curve); DiskSim 4.0 reference manual.

use elevator::{Angles, cold_path};

use crate::divisor::Divisor;
use crate::layout::Turn;
use crate::parameters::{AccessTime, HplSeek, LONGEST_MS, MechanicsParameters, SeekCurve, SeekPoint};

/// Picoseconds: a time since the drive's origin, or a duration.
pub(crate) type Picos = u64;

/// Milliseconds as picoseconds; negative values and NaN become 0.
pub(crate) fn picos(ms: f64) -> Picos {
    (ms * 1e9) as Picos
}

/// A drive's moving parts.
#[derive(Clone, Debug)]
pub(crate) struct Mechanics {
    access: AccessTime,
    /// Seek time by distance in cylinders.
    seeks: Vec<Picos>,
    /// The same for writes, if different.
    write_seeks: Option<Vec<Picos>>,
    /// The minimum over this and all longer distances: measured curves need not rise.
    least_seeks: Vec<Picos>,
    /// May be negative.
    write_settle: i64,
    head_switch: Picos,
    period: Divisor,
}

/// Why mechanics are impossible.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MechanicsError {
    /// The rotation speed is out of range.
    #[error("revolutions per minute must lie between 60 and 1,000,000")]
    Rotation,
    /// A measured curve has no points, or distances that do not rise.
    #[error("a measured seek curve needs at least one point, and its distances must rise")]
    SeekCurve,
    /// A time is negative, not a number, or beyond an hour.
    #[error("a time in the mechanics is negative, not a number, or longer than an hour")]
    Time,
}

/// More than the rounding of two conversions between angle and time.
const ROUNDING: Turn = 4 << 12;

/// Ten microseconds.
const SLACK: Picos = 10_000_000;

impl Mechanics {
    pub(crate) fn new(p: &MechanicsParameters, cylinders: u32) -> Result<Self, MechanicsError> {
        // A lower speed would overflow the conversions between angles and times.
        if !(60.0..=1e6).contains(&p.revolutions_per_minute) {
            return Err(MechanicsError::Rotation);
        }
        let sound = |ms: f64| (0.0..=LONGEST_MS).contains(&ms);
        if !sound(p.head_switch_ms) || !sound(p.write_settle_ms.abs()) {
            return Err(MechanicsError::Time);
        }
        if let AccessTime::Constant(ms) = p.access
            && !sound(ms)
        {
            return Err(MechanicsError::Time);
        }
        let seeks = seek_table(&p.seek, cylinders)?;
        let write_seeks = p.write_seek.as_ref().map(|curve| seek_table(curve, cylinders)).transpose()?;
        let of_writes = write_seeks.as_ref().unwrap_or(&seeks);
        let least: Vec<Picos> = seeks.iter().zip(of_writes).map(|(&a, &b)| a.min(b)).collect();
        Ok(Self {
            access: p.access,
            least_seeks: suffix_minima(&least),
            seeks,
            write_seeks,
            write_settle: (p.write_settle_ms * 1e9) as i64,
            head_switch: picos(p.head_switch_ms),
            period: Divisor::new(picos(1000.0 / (p.revolutions_per_minute / 60.0))),
        })
    }

    /// The duration of a revolution.
    pub(crate) fn period(&self) -> Picos {
        self.period.get()
    }

    /// From one track to another: the longer of arm move and head switch, then settling for a write.
    pub(crate) fn seek(&self, cylinders: u32, other_head: bool, write: bool) -> Picos {
        if let AccessTime::Constant(ms) = self.access {
            cold_path();
            return picos(ms);
        }
        let seeks = self.write_seeks.as_ref().filter(|_| write).unwrap_or(&self.seeks);
        let arm = seeks[(cylinders as usize).min(seeks.len() - 1)];
        let switch = if other_head { self.head_switch } else { 0 };
        let moved = arm.max(switch);
        if moved != 0 && write { moved.saturating_add_signed(self.write_settle) } else { moved }
    }

    /// A lower bound for moves over at least that many cylinders, with or without a head switch or settling.
    pub(crate) fn least_seek(&self, cylinders: u32) -> Picos {
        if let AccessTime::Constant(ms) = self.access {
            cold_path();
            return picos(ms);
        }
        let arm = self.least_seeks[(cylinders as usize).min(self.least_seeks.len() - 1)];
        arm.saturating_add_signed(self.write_settle.min(0))
    }

    /// A lower bound for moves to another track at least that many cylinders away. It does not decrease with the distance.
    pub(crate) fn least_move(&self, cylinders: u32) -> Picos {
        if cylinders > 0 {
            return self.least_seek(cylinders);
        }
        let switch = self.seek(0, true, false).saturating_add_signed(self.write_settle.min(0));
        switch.min(self.least_seek(1))
    }

    /// Lower bounds for the travel over each number of cylinders in any number of moves. A bound that grows less than in proportion to
    /// the distance holds for a sum of moves if it holds for each.
    pub(crate) fn least_travel(&self) -> Vec<Picos> {
        let mut steepest: Option<(u128, u128)> = None;
        let bound = |cylinders: usize| {
            let (time, distance) = (u128::from(self.least_seek(cylinders as u32)), cylinders as u128);
            let (of, over) = match steepest {
                Some((of, over)) if of * distance <= time * over => (of, over),
                _ => (time, distance),
            };
            steepest = Some((of, over));
            (distance * of / over) as Picos
        };
        std::iter::once(0).chain((1..self.least_seeks.len()).map(bound)).collect()
    }

    /// The least time, at least `least`, from the pass of one angle to that of another.
    pub(crate) fn least_gap(&self, from: Turn, to: Turn, least: Picos) -> Picos {
        if self.access != AccessTime::SeekAndRotation {
            return least;
        }
        // The rounding of the angles in all accesses that can lie between, a nanosecond each.
        let slack = SLACK + least / 10_000;
        let (phase, least) = (self.time_of(to.wrapping_sub(from)), least.saturating_sub(slack));
        let turns = least.saturating_sub(phase).div_ceil(self.period());
        (phase + turns * self.period()).saturating_sub(slack).max(least)
    }

    /// A lower bound for the longest move.
    pub(crate) fn full_stroke(&self) -> Picos {
        self.least_move(u32::MAX)
    }

    /// The time until angle `to` is where `from` is now.
    pub(crate) fn latency(&self, from: Turn, to: Turn) -> Picos {
        match self.access {
            AccessTime::SeekAndRotation => self.time_of(to.wrapping_sub(from)),
            AccessTime::AverageRotation => self.period() >> 1,
            AccessTime::Constant(_) => 0,
        }
    }

    /// The angles that pass within `time`, starting with `from`: contains every angle for which [`latency`](Self::latency) is not
    /// longer, also shortly after.
    pub(crate) fn angles_within(&self, from: Turn, time: Picos) -> Angles {
        if self.access != AccessTime::SeekAndRotation || time >= self.period() {
            return Angles::ALL;
        }
        Angles { first: from.wrapping_sub(ROUNDING), length: self.turned(time).saturating_add(2 * ROUNDING) }
    }

    /// The time to turn by an angle.
    pub(crate) fn time_of(&self, angle: Turn) -> Picos {
        ((u64::from(angle) >> 12) * self.period()) >> 20
    }

    /// The angle turned in a time, modulo a revolution. Only times too long for the intermediate product are reduced first.
    pub(crate) fn turned(&self, time: Picos) -> Turn {
        let time = if time < 1 << 39 {
            time
        } else {
            cold_path();
            time % self.period()
        };
        (self.period.quotient(time << 24) << 8) as Turn
    }
}

fn suffix_minima(times: &[Picos]) -> Vec<Picos> {
    let mut minima = times.to_vec();
    for at in (1..minima.len()).rev() {
        minima[at - 1] = minima[at - 1].min(minima[at]);
    }
    minima
}

fn seek_table(curve: &SeekCurve, cylinders: u32) -> Result<Vec<Picos>, MechanicsError> {
    let last = cylinders.max(2);
    let table: Vec<f64> = match curve {
        SeekCurve::Measured(points) => return measured(points, last),
        SeekCurve::Hpl(hpl) => return hpl_table(hpl, None, last),
        SeekCurve::HplWithFirstTen { hpl, first_ten_ms } => {
            return hpl_table(hpl, Some(first_ten_ms), last);
        }
        SeekCurve::Constant { ms } => vec![*ms; last as usize],
        SeekCurve::Linear { single_ms, average_ms, full_ms } => {
            (1..=last).map(|d| linear(d, last, *single_ms, *average_ms, *full_ms)).collect()
        }
        SeekCurve::ThreePoint { single_ms, average_ms, full_ms } => {
            three_point(last, *single_ms, *average_ms, *full_ms)
        }
    };
    if table.iter().any(|ms| !(0.0..=LONGEST_MS).contains(ms)) {
        return Err(MechanicsError::Time);
    }
    Ok(core::iter::once(0).chain(table.into_iter().map(picos)).collect())
}

/// Measured points; linear between them and beyond the last.
fn measured(points: &[SeekPoint], last: u32) -> Result<Vec<Picos>, MechanicsError> {
    let rising = points.windows(2).all(|w| w[0].distance < w[1].distance);
    if points.is_empty() || !rising || points[0].distance == 0 {
        return Err(MechanicsError::SeekCurve);
    }
    if points.iter().any(|p| !(0.0..=LONGEST_MS).contains(&p.ms)) {
        return Err(MechanicsError::Time);
    }
    let mut table = vec![0];
    let mut next = 0;
    for d in 1..=last {
        while next + 1 < points.len() && points[next].distance < d {
            next += 1;
        }
        table.push(sound(on_line(points, next, d).max(0) as u128)?);
    }
    Ok(table)
}

/// A computed time, if it is not longer than [`LONGEST_MS`].
fn sound(time: u128) -> Result<Picos, MechanicsError> {
    let time = Picos::try_from(time).ok().filter(|&time| time <= picos(LONGEST_MS));
    time.ok_or(MechanicsError::Time)
}

/// The value at distance `d` on the line that ends in point `next`, in whole picoseconds rounded towards the first point, as in
/// DiskSim. Before the first point the line begins at distance 0 and time 0. Beyond the last point the value may be negative.
fn on_line(points: &[SeekPoint], next: usize, d: u32) -> i128 {
    let end = points[next];
    if end.distance == d {
        return picos(end.ms).into();
    }
    let start = if next == 0 { SeekPoint { distance: 0, ms: 0.0 } } else { points[next - 1] };
    let (low, high) = (picos(start.ms) as i128, picos(end.ms) as i128);
    let (run, length) = (i128::from(d - start.distance), i128::from(end.distance - start.distance));
    low + run * (high - low) / length
}

fn hpl_table(hpl: &HplSeek, first_ten: Option<&[f64; 10]>, last: u32) -> Result<Vec<Picos>, MechanicsError> {
    let time = |d: u32| match (first_ten, hpl.single_ms) {
        (Some(ten), _) if d <= 10 => picos(ten[d as usize - 1]).into(),
        (None, Some(single)) if d == 1 => picos(single).into(),
        _ => hpl_time(hpl, d),
    };
    core::iter::once(Ok(0)).chain((1..=last).map(|d| sound(time(d)))).collect()
}

fn hpl_time(hpl: &HplSeek, d: u32) -> u128 {
    let wide = |ms| u128::from(picos(ms));
    if d < hpl.division {
        // The square root in units of 2^-16, as in DiskSim.
        let root = (u64::from(d) << 32).isqrt();
        return ((u128::from(root) * wide(hpl.root_factor_ms)) >> 16) + wide(hpl.root_constant_ms);
    }
    wide(hpl.line_factor_ms) * u128::from(d) + wide(hpl.line_constant_ms)
}

/// Straight lines through one cylinder, a third of the cylinders, and all cylinders.
fn linear(d: u32, last: u32, single: f64, average: f64, full: f64) -> f64 {
    let (d, last) = (f64::from(d), f64::from(last));
    let third = (last / 3.0).max(1.0);
    if d <= third {
        let share = if third > 1.0 { (d - 1.0) / (third - 1.0) } else { 0.0 };
        single + share * (average - single)
    } else {
        average + (d - third) / (last - third) * (full - average)
    }
}

/// Lee and Katz: `a*sqrt(d-1) + b*(d-1) + c`, whose average over random seeks is `average`. If a coefficient would be negative, the
/// straight lines are used, as in DiskSim 2.
fn three_point(last: u32, single: f64, average: f64, full: f64) -> Vec<f64> {
    let cylinders = f64::from(last) + 1.0;
    let root = (-10.0 * single + 15.0 * average - 5.0 * full) / (3.0 * cylinders.sqrt());
    let line = (7.0 * single - 15.0 * average + 8.0 * full) / (3.0 * cylinders);
    if root < 0.0 || line < 0.0 {
        return (1..=last).map(|d| linear(d, last, single, average, full)).collect();
    }
    let time = |d: u32| {
        let beyond = f64::from(d - 1);
        single + root * beyond.sqrt() + line * beyond
    };
    (1..=last).map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(list: &[(u32, f64)]) -> SeekCurve {
        SeekCurve::Measured(list.iter().map(|&(distance, ms)| SeekPoint { distance, ms }).collect())
    }

    #[test]
    fn measured_curves_are_linear_between_and_beyond_their_points() {
        let table = seek_table(&points(&[(1, 1.0), (3, 2.0), (4, 1.0), (6, 3.0)]), 9).unwrap();
        let ms: Vec<f64> = table.iter().map(|&p| p as f64 / 1e9).collect();
        assert_eq!(ms[..9], [0.0, 1.0, 1.5, 2.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn impossible_curves_are_rejected() {
        assert_eq!(seek_table(&points(&[]), 9), Err(MechanicsError::SeekCurve));
        assert_eq!(seek_table(&points(&[(2, 1.0), (2, 1.0)]), 9), Err(MechanicsError::SeekCurve));
        assert_eq!(seek_table(&points(&[(2, f64::NAN)]), 9), Err(MechanicsError::Time));
        // Valid points and factors on a disk so wide that the curve exceeds all valid times.
        let (steep, wide) = (points(&[(1, 1.0), (2, 3e6)]), 10_000_000);
        assert_eq!(seek_table(&steep, wide), Err(MechanicsError::Time));
        let hpl = |root_factor_ms, line_factor_ms, division| {
            let hpl = HplSeek { division, root_factor_ms, line_factor_ms, ..Default::default() };
            seek_table(&SeekCurve::Hpl(hpl), wide)
        };
        assert_eq!(hpl(3e6, 0.0, wide), Err(MechanicsError::Time));
        assert_eq!(hpl(0.0, 3e6, 0), Err(MechanicsError::Time));
    }

    #[test]
    fn three_point_curve_meets_its_ends() {
        let table = three_point(5000, 1.0, 9.0, 18.0);
        assert!((table[0] - 1.0).abs() < 1e-9);
        assert!((table[4999] - 18.0).abs() < 0.02, "{}", table[4999]);
    }
}
