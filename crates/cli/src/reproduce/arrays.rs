//! The stream paper's experiments on disk arrays (section 3.5, figure 6), and beyond it: stripe units, members, a slow and a
//! failed member.
//!
//! The paper's programs are buffered, below a page cache that reads ahead over two full stripes. At the level of requests
//! `ahead-read` stands for them: the steady state of that read-ahead and nothing else. What runs them on the machine's own
//! page cache goes beside [`buffered`] and changes nothing else here.

use elevator::queue::Identity;
use workloads::Workload;
use workloads::fio::JobFile;

use super::{Bench, Experiment, Row, ratio, workload};
use crate::compare::Run;
use crate::device::Device;
use crate::error::Error;

const DRIVE: &str = "wd5000aaks";
/// The paper's arrays: five disks, units of 64 KB, behind a card whose peak is "around 400MB/s".
const ARRAYS: [&str; 2] = ["raid0:5x64k{link=400}", "raid5:5x64k{link=400}"];
const ARRAY_STREAM: &str = "array-stream(deadline-2.6.32)";
/// The framework on each member alone.
const STREAM: &str = "stream(deadline-2.6.32)";
const ANTICIPATORY: &str = "anticipatory-2.6.32";
const CFQ: &str = "cfq-2.6.32";
const DEPTH: u32 = 31;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "figure 6, RAID 0", run: |scale| figure_6(ARRAYS[0], scale) },
    Experiment { name: "figure 6, RAID 5", run: |scale| figure_6(ARRAYS[1], scale) },
    Experiment { name: "without read-ahead", run: without_read_ahead },
    Experiment { name: "stripe units", run: stripe_units },
    Experiment { name: "members", run: members },
    Experiment { name: "a slow member", run: slow_member },
    Experiment { name: "a failed member", run: failed_member },
];

/// A program that reads ahead, as it stands in the paper.
struct Program {
    name: &'static str,
    processes: u64,
    /// What it computes for 64 KB, in microseconds.
    think_us: u64,
}

const PAR_READ: Program = Program { name: "par-read", processes: 4, think_us: 0 };
/// Three queries that scan: query 19 at scale factor 1 reads about 1 GB and computes for some 4 s on the paper's processor.
const TPC_H: Program = Program { name: "TPC-H-like", processes: 3, think_us: 250 };

/// A program on an array whose full stripe has so many bytes, in units of `unit`. Files are `scale` GiB, and at least
/// 128 MiB: in less a stream has hardly formed.
fn buffered(program: &Program, unit: u64, stripe: u64, scale: f64) -> Result<Box<dyn Workload>, Error> {
    let bytes = ((scale * (1u64 << 30) as f64) as u64).max(128 << 20).next_multiple_of(unit.max(1 << 16));
    workload(
        "ahead-read",
        &[
            ("processes", program.processes.to_string()),
            ("request_bytes", unit.to_string()),
            ("window_bytes", (2 * stripe).to_string()),
            ("file_bytes", bytes.to_string()),
            ("think", format!("{}us", program.think_us * unit / 65_536)),
        ],
    )
}

/// PostMark-like: four processes at random in a data set of 10,000 files of 0.5 to 10 KB each, reads and writes by halves,
/// one after the other. 2,000 transactions each at full scale are plenty: there is nothing to learn.
fn postmark_like(scale: f64) -> Result<Box<dyn Workload>, Error> {
    let io_size = ((scale * 8.0 * (1u64 << 20) as f64) as u64).next_multiple_of(4096).max(1 << 20);
    let text = format!(
        "[postmark]\nrw=randrw\nbs=4k\nsize=56m\nio_size={io_size}\nnumjobs=4\noffset_increment=51g\ndirect=1\nioengine=sync\n"
    );
    let jobs = JobFile::parse("postmark-like", &text).map_err(|e| Error::Failed(e.to_string()))?;
    Ok(Box::new(jobs))
}

fn array(description: &str) -> Result<Device, Error> {
    Device::open(DRIVE)?.in_array(description)
}

fn bench(device: &Device) -> Bench<'_> {
    Bench { device, identity: Identity::Shown, depth: DEPTH, at_most: None }
}

/// What `program` is on an array.
fn on(device: &Device, program: &Program, scale: f64) -> Result<Box<dyn Workload>, Error> {
    let geometry = device.geometry().ok_or_else(|| Error::Failed("no array".to_owned()))?;
    buffered(program, geometry.unit().bytes(), geometry.stripe() * 512, scale)
}

fn figure_6(description: &str, scale: f64) -> Result<Vec<Row>, Error> {
    let device = array(description)?;
    let level = if description.starts_with("raid5") { "RAID 5" } else { "RAID 0" };
    let mut rows = Vec::new();
    for (program, published) in [(PAR_READ, "2.14"), (TPC_H, "2.74")] {
        let experiment = format!("{}, {level}", program.name);
        let names = ["noop", "deadline-2.6.32", ANTICIPATORY, CFQ, STREAM, ARRAY_STREAM];
        let runs = bench(&device).run(&*on(&device, &program, scale)?, &names)?;
        let gain = ratio(&runs[5], &runs[0]);
        rows.push(Row::within(
            &experiment,
            "array-stream over noop".to_owned(),
            published,
            gain,
            "x",
            1.8..=f64::INFINITY,
        ));
        rows.extend(runs[1..5].iter().map(|run| {
            let figure = format!("{} over noop", run.scheduler);
            Row::reported(&experiment, figure, "limited", ratio(run, &runs[0]), "x")
        }));
        rows.push(Row::reported(
            &experiment,
            "array-stream".to_owned(),
            "361 (par-read)",
            rate(&runs[5]),
            "MB/s",
        ));
        rows.push(against_one_disk(&experiment, &program, &runs, scale)?);
    }
    let runs = bench(&device).run(&*postmark_like(scale)?, &["noop", ARRAY_STREAM])?;
    let experiment = format!("PostMark-like, {level}");
    let gain = ratio(&runs[1], &runs[0]);
    rows.push(Row::within(&experiment, "array-stream over noop".to_owned(), "about 1", gain, "x", 0.9..=1.2));
    Ok(rows)
}

/// Anticipation gains far less on the array than on one disk.
fn against_one_disk(experiment: &str, program: &Program, on_array: &[Run], scale: f64) -> Result<Row, Error> {
    let disk = Device::open(DRIVE)?;
    let workload = buffered(program, 65_536, 65_536, scale)?;
    let runs = bench(&disk).run(&*workload, &["noop", ANTICIPATORY])?;
    let share = ratio(&on_array[2], &on_array[0]) / ratio(&runs[1], &runs[0]);
    let figure = "anticipatory's gain, array over one disk".to_owned();
    Ok(Row::within(experiment, figure, "0.37 (1.33 over 3.57, TPC-H)", share, "x", 0.0..=0.7))
}

fn rate(run: &Run) -> f64 {
    run.measured.megabytes_per_second()
}

fn without_read_ahead(scale: f64) -> Result<Vec<Row>, Error> {
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

/// Rates under noop, the framework on each member alone, and coordinated; on an array of that description.
fn three(description: &str, scale: f64) -> Result<[f64; 3], Error> {
    let device = array(description)?;
    let runs = bench(&device).run(&*on(&device, &PAR_READ, scale)?, &["noop", STREAM, ARRAY_STREAM])?;
    Ok([rate(&runs[0]), rate(&runs[1]), rate(&runs[2])])
}

/// What coordination gains, over nothing and over members that wait on their own. Where it does not pay the coordinator
/// should notice, and lose no more than a tenth of what they get.
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
