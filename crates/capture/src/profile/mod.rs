//! Profiles: a device's service time by distance, and each scheduler's throughput by request size.
//!
//! The device is only read, past the page cache. The same code as for modelled drives ([`disks::curve`]) measures the curve; the table is
//! the `f_s(r)` of Seelam and others (see [`observation::throughput`]).

mod direct;
mod drive;
mod probe;
mod rounds;
mod service_times;
mod setting;
mod throughput;

use std::path::Path;

use disks::curve;
use elevator::Span;
use elevator::service_time::{MeasuredPoint, ServiceCurve};
use observation::SchedulerId;
use observation::throughput::{Curve, Table, Workload};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::topology::{self, Scheduling};
use drive::Real;
use setting::Setting;

pub use direct::claim;
pub use probe::Probe;
pub use setting::Guard;
pub use throughput::Load;

/// The version of the file format.
const VERSION: u32 = 1;

/// The longest valid service time; no disk takes that long.
const LONGEST: Span = Span::from_secs(3_600);

/// How to measure a device that is in use.
const ADVICE: &str = "switching its scheduler would disturb its users; --no-switch measures the present one alone, --even-if-used switches all the same";

/// A device's profile, as its file holds it (TOML).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    version: u32,
    /// The device's name at the time of measurement.
    pub device: String,
    /// Its size in bytes.
    pub capacity: u64,
    /// Whether it reports to be rotational.
    pub rotational: bool,
    /// Why its schedulers cannot be compared, if `none` differed from round to round and the profile was written nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsteady: Option<String>,
    /// Service time by distance.
    pub service_time: ServiceTime,
    /// Throughput by scheduler.
    #[serde(default)]
    pub throughput: Vec<Throughput>,
}

/// A measured curve.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTime {
    /// The time for each further sector of a request, in nanoseconds.
    pub transfer_per_sector: u64,
    /// Distance in sectors and median time in nanoseconds, each of the same number of measurements.
    pub points: Vec<(u64, u64)>,
}

impl ServiceTime {
    /// The curve, for schedulers that estimate service times.
    pub fn curve(&self) -> ServiceCurve {
        let point =
            |&(distance, nanos): &(u64, u64)| MeasuredPoint { distance, time: Span::from_nanos(nanos) };
        let points: Vec<MeasuredPoint> = self.points.iter().map(point).collect();
        ServiceCurve::fit(&points, Span::from_nanos(self.transfer_per_sector))
    }
}

/// `f_s(r)` of one scheduler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// The kernel's name of the scheduler.
    pub scheduler: String,
    /// Request size in bytes and bytes per second, by type of load.
    pub curves: Vec<Curve>,
    /// For each point half the width of its 95% confidence interval in bytes per second; empty if it was measured once.
    #[serde(default)]
    pub intervals: Vec<Vec<f64>>,
}

impl Throughput {
    /// The curves, each point moved by so many half widths of its interval. `None` without intervals.
    fn moved(&self, by: f64) -> Option<Vec<Curve>> {
        let curve = |(curve, widths): (&Curve, &Vec<f64>)| {
            let point = |(&(size, rate), width): (&(f64, f64), &f64)| (size, (rate + by * width).max(0.0));
            let points: Vec<(f64, f64)> = curve.points.iter().zip(widths).map(point).collect();
            (points.len() == curve.points.len()).then_some(Curve { kind: curve.kind, points })
        };
        (self.intervals.len() == self.curves.len())
            .then(|| self.curves.iter().zip(&self.intervals).map(curve).collect())?
    }
}

/// What to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Measure every scheduler; otherwise only the present one.
    pub switch: bool,
    /// Switch although the device is mounted or held.
    pub even_if_used: bool,
    /// How often every scheduler is measured, in alternating order; at least 1. The time of [`Load::each`] is divided among the rounds.
    pub rounds: u32,
    /// Accept a device on which `none` differs from round to round.
    pub even_if_unsteady: bool,
    /// The load for the schedulers.
    pub load: Load,
}

impl Default for Plan {
    fn default() -> Self {
        Self { switch: false, even_if_used: false, rounds: 4, even_if_unsteady: false, load: Load::default() }
    }
}

impl Profile {
    /// Measures a device under each of its queues' schedulers. `say` receives progress messages; `stop` ends early with what was measured. The
    /// previous scheduler is restored at the end, also if the process is killed; if another process sets one, that stays and the measurement ends.
    ///
    /// # Errors
    /// The device cannot be read, or is in use while its scheduler is to be switched; `none` differs from round to round ([`Error::Unsteady`]); the
    /// kernel rejects a scheduler, or another process sets one.
    pub fn measure(
        scheduling: &Scheduling,
        plan: &Plan,
        say: &mut dyn FnMut(&str),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self, Error> {
        let layer = &scheduling.above;
        let node = layer.node();
        let alone = plan.switch && scheduling.offers_a_choice() && !plan.even_if_used;
        let _claim = alone.then(|| claim(scheduling, ADVICE)).transpose()?;
        let mut real = Real::open(&node, stop)?;
        let capacity = disks::Drive::capacity(&real).bytes();
        if capacity == 0 {
            return Err(Error::device(node, "has no sectors: insert a medium or attach a file first"));
        }
        say("measuring the service time by distance");
        let measurement = curve::measure(&mut real, curve::SEED);
        real.failure()?;
        if is_too_small(&measurement) && !stop() {
            let problem = format!("has {capacity} bytes, too few for a profile; it needs 4 MiB");
            return Err(Error::device(node, problem));
        }
        let service_time = ServiceTime {
            transfer_per_sector: measurement.transfer_per_sector.as_nanos(),
            points: medians(&measurement.points),
        };
        let (throughput, unsteady) = schedulers(scheduling, plan, capacity, say, stop)?;
        let (device, rotational) = (layer.name.clone(), layer.rotational);
        Ok(Self { version: VERSION, device, capacity, rotational, unsteady, service_time, throughput })
    }

    /// Reads a profile's file.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let profile: Self = toml::from_str(text).map_err(|error| disks::explain_toml(text, error))?;
        if profile.version != VERSION {
            return Err(format!("has version {}, and this program reads version {VERSION}", profile.version));
        }
        let ServiceTime { transfer_per_sector, points } = &profile.service_time;
        let slow = |nanos: u64| Span::from_nanos(nanos) > LONGEST;
        if points.is_empty() || points.iter().any(|point| slow(point.1)) || slow(*transfer_per_sector) {
            return Err(format!(
                "service_time: points are [sectors, nanoseconds], one at least, and nothing takes longer than {LONGEST}"
            ));
        }
        let rising = |points: &[(f64, f64)]| points.windows(2).all(|two| two[0].0 < two[1].0);
        let curves = || profile.throughput.iter().flat_map(|one| &one.curves);
        let sound =
            |&(size, rate): &(f64, f64)| size > 0.0 && size.is_finite() && rate >= 0.0 && rate.is_finite();
        let widths = || profile.throughput.iter().flat_map(|one| one.intervals.iter().flatten());
        if widths().any(|width| !width.is_finite() || *width < 0.0) {
            return Err("throughput: intervals are bytes a second, at least 0".to_owned());
        }
        if curves().any(|curve| !rising(&curve.points) || !curve.points.iter().all(sound)) {
            return Err(
                "throughput: points are [bytes of a request, bytes a second], by rising size".to_owned()
            );
        }
        Ok(profile)
    }

    /// The text of its file.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// The curve, for schedulers that estimate service times.
    pub fn service_curve(&self) -> ServiceCurve {
        self.service_time.curve()
    }

    /// The table of throughput for these schedulers, in their order; empty for one that was not measured.
    pub fn table(&self, schedulers: &[String]) -> Table {
        let of = |name: &String| self.throughput.iter().find(|one| one.scheduler == *name);
        Table {
            curves: schedulers
                .iter()
                .map(|name| of(name).map_or(Vec::new(), |one| one.curves.clone()))
                .collect(),
        }
    }
}

impl Profile {
    /// Whether the confidence intervals show that a scheduler gives this load more than another one; `None` if the profile has no intervals for it.
    pub fn is_surely_better(&self, better: &str, than: &str, load: &Workload) -> Option<bool> {
        let bound = |name: &str, by: f64| {
            let one = self.throughput.iter().find(|one| one.scheduler == name)?;
            Table { curves: vec![one.moved(by)?] }.throughput(SchedulerId(0), load)
        };
        Some(bound(better, -1.0)? > bound(than, 1.0)?)
    }
}

/// Whether a complete measurement has no service times, or no transfer rate: a device of less than a sequential read has none.
fn is_too_small(measurement: &curve::Measurement) -> bool {
    measurement.points.is_empty() || measurement.transfer_per_sector == Span::ZERO
}

/// One point per distance, the median: on a busy machine some reads are milliseconds late, which would shift a mean. For rotational delay the
/// median equals the mean.
fn medians(points: &[MeasuredPoint]) -> Vec<(u64, u64)> {
    let runs = points.chunk_by(|one, other| one.distance == other.distance);
    let mut medians: Vec<(u64, u64)> = runs
        .map(|run| {
            let mut nanos: Vec<u64> = run.iter().map(|point| point.time.as_nanos()).collect();
            let middle = nanos.len() / 2;
            (run[0].distance, *nanos.select_nth_unstable(middle).1)
        })
        .collect();
    medians.sort_unstable();
    medians
}

/// The throughput of each scheduler, and why they cannot be compared, if that is accepted.
fn schedulers(
    scheduling: &Scheduling,
    plan: &Plan,
    capacity: u64,
    say: &mut dyn FnMut(&str),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Vec<Throughput>, Option<String>), Error> {
    let Scheduling { above, queues } = scheduling;
    let switch = plan.switch && scheduling.offers_a_choice();
    let switched = queues.iter().filter(|_| switch);
    let settings = switched.map(Setting::keep).collect::<Result<Vec<_>, _>>()?;
    let names = if switch { queues[0].available.clone() } else { vec![scheduling.scheduler()] };
    let reference = names.iter().position(|name| name == "none").filter(|_| switch);
    let all = plan.rounds.max(1);
    let load = Load { each: plan.load.each / all, ..plan.load.clone() };
    let mut measured: Vec<Vec<Vec<Curve>>> = vec![Vec::new(); names.len()];
    let mut unsteady = None;
    for round in 0..all {
        for index in rounds::order(names.len(), round).into_iter().take_while(|_| !stop()) {
            let name = &names[index];
            settings.iter().try_for_each(|setting| setting.set(name))?;
            say(&format!("measuring the throughput under {name} (round {} of {all})", round + 1));
            measured[index].push(throughput::measure(&above.node(), capacity, &load, stop)?);
            settings.iter().try_for_each(Setting::check_unchanged)?;
            if reference == Some(index) {
                unsteady = rounds::unsteady(&measured[index]);
            }
            if let Some(why) = unsteady.clone().filter(|_| !plan.even_if_unsteady) {
                return Err(Error::Unsteady { path: above.node(), why });
            }
        }
    }
    let all = names.into_iter().zip(measured).filter(|(_, rounds)| !rounds.is_empty());
    let one = |(scheduler, rounds): (String, Vec<Vec<Curve>>)| {
        let (curves, intervals) = rounds::combined(&rounds);
        Throughput { scheduler, curves, intervals }
    };
    Ok((all.map(one).collect(), unsteady))
}

/// The schedulers that a queue offers, and the active one.
fn offered(attribute: &Path) -> Result<(Option<String>, Vec<String>), Error> {
    let text = std::fs::read_to_string(attribute)
        .map_err(|error| Error::io(format!("reading {}", attribute.display()), error))?;
    Ok(topology::schedulers(&text))
}

#[cfg(test)]
mod tests {
    use observation::throughput::CurveClass;

    use super::*;

    fn profile() -> Profile {
        let curve = |rate: f64| Curve {
            kind: CurveClass { reads: Some(true), random: None },
            points: vec![(4096.0, rate), (65536.0, 2.0 * rate)],
        };
        Profile {
            version: VERSION,
            device: "sda".to_owned(),
            capacity: 1 << 40,
            rotational: true,
            unsteady: None,
            service_time: ServiceTime {
                transfer_per_sector: 5_000,
                points: vec![(0, 100_000), (1 << 20, 9_000_000)],
            },
            throughput: vec![
                Throughput {
                    scheduler: "none".to_owned(),
                    curves: vec![curve(1e6)],
                    intervals: vec![vec![1e5; 2]],
                },
                Throughput {
                    scheduler: "bfq".to_owned(),
                    curves: vec![curve(2e6)],
                    intervals: vec![vec![2e5; 2]],
                },
            ],
        }
    }

    #[test]
    fn a_profile_is_read_back_and_used() {
        let read = Profile::from_toml(&profile().to_toml().unwrap()).unwrap();
        assert_eq!(read, profile());
        assert_eq!(read.service_curve().at_distance(1 << 21), Span::from_millis(9));
        let unsteady = Profile { unsteady: Some("none gave 1 to 2 MB/s".to_owned()), ..profile() };
        assert_eq!(Profile::from_toml(&unsteady.to_toml().unwrap()).unwrap(), unsteady);
        let table = read.table(&["kyber", "bfq", "none"].map(str::to_owned));
        let workload = Workload { size: 4096.0, read_share: 1.0, random_share: 1.0 };
        let (best, rate) = table.best(&workload).unwrap();
        assert_eq!((best.0, rate), (1, 2e6));
        assert!(table.curves[0].is_empty());
    }

    #[test]
    fn a_difference_within_the_intervals_is_not_significant() {
        let load = Workload { size: 4096.0, read_share: 1.0, random_share: 1.0 };
        let better = |profile: &Profile| profile.is_surely_better("bfq", "none", &load);
        assert_eq!(better(&profile()), Some(true));
        let mut noisy = profile();
        noisy.throughput[1].intervals = vec![vec![1.1e6; 2]];
        assert_eq!(better(&noisy), Some(false));
        noisy.throughput[0].intervals.clear();
        assert_eq!(better(&noisy), None, "an old profile");
        assert_eq!(noisy.is_surely_better("kyber", "none", &load), None);
    }

    #[test]
    fn errors_in_a_profile_name_the_reason() {
        let text = profile().to_toml().unwrap();
        let error = |from: &str, to: &str| Profile::from_toml(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error("version = 1", "version = 2").contains("version 2"));
        assert!(error("rotational = true", "rotational = 7").starts_with("line 4: rotational: "));
        assert!(error("capacity", "capacitance").contains("capacitance"));
        assert!(error("65536.0", "5.0").contains("rising size"));
        assert!(error("9000000", "3600000000001").contains("[sectors, nanoseconds]"));
        assert!(error("[[0, 100000], [1048576, 9000000]]", "[]").contains("one at least"));
    }

    #[test]
    fn fuzz_seeds_are_valid() {
        let seed = include_str!("../../../../fuzz/seeds/profile/two.toml");
        assert_eq!(Profile::from_toml(seed).unwrap().throughput.len(), 2);
    }

    #[test]
    fn medians_are_computed_for_each_distance() {
        let point = |distance, nanos| MeasuredPoint { distance, time: Span::from_nanos(nanos) };
        assert_eq!(medians(&[point(8, 10), point(8, 900), point(8, 20), point(0, 5)]), [(0, 5), (8, 20)]);
    }
}
