//! The stream paper's experiments on disk arrays (section 3.5, figure 6), and beyond it: stripe units, members, a slow and a
//! failed member.
//!
//! The figure's programs are buffered, on the modelled machine ([`figure_6`]). The other experiments use `ahead-read` at the
//! level of requests instead: the steady state of read-ahead over two full stripes.

mod figure_6;

use elevator::queue::Identity;
use workloads::Workload;

use super::{Bench, Experiment, Row, ratio, workload};
use crate::device::Device;
use crate::error::Error;
use crate::runs::Run;

const DRIVE: &str = "wd5000aaks";
/// The paper's arrays: five disks, units of 64 KB, behind a card whose peak is "around 400MB/s".
const ARRAYS: [&str; 2] = ["raid0:5x64k{link=400}", "raid5:5x64k{link=400}"];
const ARRAY_STREAM: &str = "array-stream(deadline-2.6.32)";
/// The framework on each member alone.
const STREAM: &str = "stream(deadline-2.6.32)";
const ANTICIPATORY: &str = "anticipatory-2.6.32";
const CFQ: &str = "cfq-2.6.32";
const DEPTH: u32 = 31;

/// The figure on RAID 0, which scripts run as well, at the paper's size.
pub(super) const SCRIPTED: &str = "figure 6, RAID 0";

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: SCRIPTED, run: |scale| figure_6::run(ARRAYS[0], scale) },
    Experiment { name: "figure 6, RAID 5", run: |scale| figure_6::run(ARRAYS[1], scale) },
    Experiment { name: "figure 6, order kept by the drive", run: figure_6::in_the_order_sent },
    Experiment { name: "figure 6 without read-ahead", run: figure_6::without_read_ahead },
    Experiment { name: "one request at a time", run: one_request_at_a_time },
    Experiment { name: "stripe units", run: stripe_units },
    Experiment { name: "members", run: members },
    Experiment { name: "a slow member", run: slow_member },
    Experiment { name: "a failed member", run: failed_member },
];

/// The requests of par-read to an array with stripe unit `unit` and full stripes of `stripe` bytes. Files have `scale` GiB, and at least
/// 128 MiB: in shorter files a stream has just formed.
fn reading_ahead(unit: u64, stripe: u64, scale: f64) -> Result<Box<dyn Workload>, Error> {
    let bytes = ((scale * (1u64 << 30) as f64) as u64).max(128 << 20).next_multiple_of(unit.max(1 << 16));
    workload(
        "ahead-read",
        &[
            ("request_bytes", unit.to_string()),
            ("window_bytes", (2 * stripe).to_string()),
            ("file_bytes", bytes.to_string()),
        ],
    )
}

fn array(description: &str) -> Result<Device, Error> {
    Device::open(DRIVE)?.in_array(description)
}

fn bench(device: &Device) -> Bench<'_> {
    Bench { device, identity: Identity::Shown, depth: DEPTH, at_most: None }
}

fn rate(run: &Run) -> f64 {
    run.measured.megabytes_per_second()
}

fn one_request_at_a_time(scale: f64) -> Result<Vec<Row>, Error> {
    let device = array(ARRAYS[0])?;
    let mut rows = Vec::new();
    for kib in [4u64, 64] {
        let bytes = ((scale * (1u64 << 30) as f64) as u64).clamp(1 << 23, 1 << 26) * kib / 64;
        let bytes = bytes.next_multiple_of(kib << 10).max(4 << 20);
        let settings = [("request_bytes", (kib << 10).to_string()), ("file_bytes", bytes.to_string())];
        let runs = bench(&device)
            .run(&*workload("par-read", &settings)?, &["noop", ANTICIPATORY, CFQ, STREAM, ARRAY_STREAM])?;
        let experiment = format!("one request of {kib} KB at a time, no read-ahead");
        rows.extend(runs.iter().map(|run| {
            Row::reported(&experiment, run.scheduler.clone(), "not published", rate(run), "MB/s")
        }));
        let least = ratio(&runs[4], &runs[0]);
        rows.push(Row::within(
            &experiment,
            "array-stream over noop".to_owned(),
            "no loss",
            least,
            "x",
            0.95..=f64::INFINITY,
        ));
    }
    Ok(rows)
}

/// Rates on an array under noop, under the framework on each member alone, and under the coordinator.
fn three(description: &str, scale: f64) -> Result<[f64; 3], Error> {
    let device = array(description)?;
    let geometry = device.geometry().ok_or_else(|| Error::Failed(format!("{description} is no array")))?;
    let workload = reading_ahead(geometry.unit().bytes(), geometry.stripe() * 512, scale)?;
    let runs = bench(&device).run(&*workload, &["noop", STREAM, ARRAY_STREAM])?;
    Ok([rate(&runs[0]), rate(&runs[1]), rate(&runs[2])])
}

/// The gain of coordination over noop and over uncoordinated members. Where coordination does not pay, the coordinator
/// should detect that, and lose at most a tenth of the uncoordinated rate.
fn gains(experiment: &str, what: &str, [noop, stream, coordinated]: [f64; 3]) -> Vec<Row> {
    let unpublished = "not published";
    let over_noop = format!("over noop, {what}");
    let over_stream = format!("over stream on each member, {what}");
    let share = coordinated / stream;
    vec![
        Row::reported(experiment, format!("array-stream, {what}"), unpublished, coordinated, "MB/s"),
        Row::reported(experiment, over_noop, unpublished, coordinated / noop, "x"),
        Row::within(experiment, over_stream, "lose little", share, "x", 0.9..=f64::INFINITY),
    ]
}

fn stripe_units(scale: f64) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let mut over_noop = Vec::new();
    for kib in [16, 32, 64, 128, 256, 512, 1024] {
        let rates = three(&format!("raid0:5x{kib}k{{link=400}}"), scale)?;
        over_noop.push(rates[2] / rates[0]);
        rows.extend(gains("stripe unit", &format!("{kib} KB"), rates));
    }
    let (smallest, largest) = (over_noop[0], over_noop[over_noop.len() - 1]);
    let figure = "gain at 16 KB over gain at 1 MB".to_owned();
    rows.push(Row::within(
        "stripe unit",
        figure,
        "not published",
        smallest / largest,
        "x",
        3.0..=f64::INFINITY,
    ));
    Ok(rows)
}

fn members(scale: f64) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for members in [2, 3, 5, 8, 12, 16, 24] {
        rows.extend(gains(
            "members",
            &format!("{members} disks"),
            three(&format!("raid0:{members}x64k"), scale)?,
        ));
    }
    Ok(rows)
}

fn slow_member(scale: f64) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for slowness in [100, 120, 150, 200, 400] {
        let rates = three(&format!("raid0:5x64k{{slow=2, slowness={slowness}, link=400}}"), scale)?;
        rows.extend(gains("a slow member", &format!("{slowness}%"), rates));
    }
    Ok(rows)
}

fn failed_member(scale: f64) -> Result<Vec<Row>, Error> {
    let rates = three("raid5:5x64k{failed=2, link=400}", scale)?;
    Ok(gains("a failed member of RAID 5", "degraded reads", rates))
}
