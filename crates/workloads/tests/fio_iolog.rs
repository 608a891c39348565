//! Compares the requests of job files with those that fio 3.33 issues, from the I/O logs that it writes. What the tests need of the logs is in
//! `fio_iolog/*.txt`; `DWELL_BLESS=1 cargo test -p dwell-workloads --test fio_iolog` runs fio and writes these files anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use elevator::{Op, Time};
use machine::Next;
use workloads::Workload;
use workloads::fio::JobFile;

/// A request: operation, file, offset and length in bytes.
type Request = (Op, String, u64, u64);

/// A directory that is removed when the test ends.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `of` extracts from fio's log for each of these jobs.
fn of_fio(name: &str, jobs: &[&str], of: impl Fn(&[Request]) -> String) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fio_iolog/{name}.txt"));
    if std::env::var_os("DWELL_BLESS").is_some() {
        let mut text = String::new();
        for (n, job) in jobs.iter().enumerate() {
            let found = of(&issued_by_fio(&format!("{name}{n}"), job));
            let _ = writeln!(text, "{}\t{found}", job.trim_end().replace('\n', " "));
        }
        std::fs::write(&path, text).expect("the file of results");
    }
    let text = std::fs::read_to_string(&path).expect("the file of results");
    let found = |(line, job): (&str, &&str)| {
        let (of, found) = line.split_once('\t').expect("a job and its result");
        assert_eq!(of, job.trim_end().replace('\n', " "), "{}: another job", path.display());
        found.to_owned()
    };
    assert_eq!(text.lines().count(), jobs.len(), "{}", path.display());
    text.lines().zip(jobs).map(found).collect()
}

/// Requests as text; those that continue each other share an entry: `Read a.0.0 0+4096*16`.
fn text(requests: &[Request]) -> String {
    let continues = |a: &Request, b: &Request| a.0 == b.0 && a.1 == b.1 && a.2 + a.3 == b.2 && a.3 == b.3;
    let run = |run: &[Request]| {
        let (op, file, at, bytes) = &run[0];
        format!("{op:?} {file} {at}+{bytes}*{}", run.len())
    };
    requests.chunk_by(continues).map(run).collect::<Vec<_>>().join(", ")
}

/// What fio issues for these options, with its null engine.
fn issued_by_fio(name: &str, options: &str) -> Vec<Request> {
    let directory =
        Directory(std::env::temp_dir().join(format!("dwell-iolog-{name}-{}", std::process::id())));
    std::fs::create_dir_all(&directory.0).expect("a directory");
    let (job, log) = (directory.0.join("job.fio"), directory.0.join("log"));
    std::fs::write(&job, format!("[a]\nioengine=null\n{options}")).expect("a job file");
    let log_option = format!("--write_iolog={}", log.display());
    let output = Command::new("fio")
        .current_dir(&directory.0)
        .args(["--output=/dev/null", &log_option, "job.fio"])
        .output()
        .expect("fio runs");
    assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(log).expect("an I/O log");
    log.lines().filter_map(request).collect()
}

/// A line of an I/O log, version 2 or 3: `[time] file operation offset length`.
fn request(line: &str) -> Option<Request> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [.., file, op, at, bytes] = words[..] else { return None };
    let op = match op {
        "read" => Op::Read,
        "write" => Op::Write,
        "trim" => Op::Discard,
        _ => return None,
    };
    Some((op, file.to_owned(), at.parse().ok()?, bytes.parse().ok()?))
}

/// What the model issues for them.
fn issued_here(options: &str) -> Vec<Request> {
    let file = JobFile::parse("job.fio", &format!("[a]\nioengine=psync\n{options}")).expect("a job file");
    let regions = file.jobs()[0].regions.clone();
    let place = |at: u64| {
        let of = |at: u64| regions.iter().rfind(|region| region.offset.bytes() <= at);
        let region = of(at).expect("a region");
        (region.file.clone(), at - region.offset.bytes() + region.file_offset)
    };
    let mut processes = file.processes();
    let program = &mut processes[0].1;
    let (mut now, mut issued) = (Time::ZERO, Vec::new());
    loop {
        match program.next(now) {
            Next::Submit(io) if io.op != Op::Flush => {
                let (file, at) = place(io.start.bytes());
                issued.push((io.op, file, at, io.sectors.bytes()));
            }
            Next::Until(at) => now = now.max(at),
            Next::Think(span) => now += span,
            Next::Exit => return issued,
            _ => {}
        }
    }
}

#[test]
fn sequential_jobs_issue_the_same_requests_as_fio() {
    let jobs = [
        "rw=read\nsize=64k\n",
        "rw=write\nbs=16k\nsize=100k\n",
        "rw=read\nsize=64k\noffset=16k\n",
        "rw=read\nfilesize=64k\noffset=16k\nsize=32k\n",
        "rw=write\nsize=32k\nio_size=96k\n",
        "rw=read\nsize=32k\nloops=3\n",
        "rw=read\nsize=1m\nnumber_ios=10\n",
        "rw=read\nbs=8k\nsize=64k\nrate_iops=400\n",
        "rw=read:8k\nsize=48k\nnumber_ios=4\n",
        "rw=read\nsize=64k\nthinktime=100\nthinktime_blocks=4\nthinktime_spin=50\n",
        "rw=write\nsize=64k\nfsync=4\n",
        "rw=read\nsize=32k\nbs=4k,8k\n",
        "rw=write\nsize=32k\nbs=4k,8k\n",
        "rw=randread\nsize=64k\npercentage_random=0\n",
        "rw=write\nsize=40k\nnrfiles=3\n",
        "rw=write\nsize=66k\nnrfiles=3\n",
        "rw=write\nsize=40k\nnrfiles=3\nopenfiles=2\n",
        "rw=write\nsize=40k\nnrfiles=3\nopenfiles=1\n",
        "rw=write\nsize=40k\nnrfiles=3\nfile_service_type=roundrobin:2\n",
        "rw=write\nsize=40k\nnrfiles=3\nfile_service_type=sequential\n",
        "rw=write\nsize=40k\nnrfiles=3\nfsync=1\n",
        "rw=write\nsize=40k\nnrfiles=3\nfsync=3\n",
        "rw=write\nsize=64k\nnrfiles=2\nio_size=128k\n",
        "rw=write\nsize=32k\nnrfiles=2\noffset=8k\n",
        "rw=write\nsize=32k\nnrfiles=2\nfilesize=16k\noffset=8k\n",
        "rw=write:4k\nsize=64k\nnrfiles=2\n",
        "rw=read\nsize=64k\nfilesize=8k\nnrfiles=4\n",
        "rw=write\nsize=64k\nfilename=p:q\nnrfiles=4\n",
        "rw=write\nsize=64k\nfilename=p::q\nnrfiles=1\n",
        "rw=trimwrite\nsize=32k\n",
        "rw=trimwrite\nsize=32k\nfsync=1\nnumber_ios=5\n",
        "rw=trimwrite\nsize=32k\nnrfiles=2\n",
    ];
    for (fio, job) in of_fio("sequential", &jobs, text).into_iter().zip(jobs) {
        assert_eq!(text(&issued_here(job)), fio, "{job}");
    }
}

/// Measures of a list of requests that do not depend on the random numbers.
#[derive(Debug)]
struct Shape {
    requests: usize,
    /// In percent.
    reads: f64,
    /// Requests that begin where the one before them in their direction ended, in percent.
    continued: f64,
    /// Mean length in bytes.
    mean_bytes: f64,
    /// Different offsets, in percent of the requests.
    distinct: f64,
    /// Accesses of the busiest tenth of the 4 KiB blocks that were accessed, in percent.
    busiest: f64,
}

impl Shape {
    fn text(&self) -> String {
        let Self { requests, reads, continued, mean_bytes, distinct, busiest } = self;
        format!("{requests} {reads:.2} {continued:.2} {mean_bytes:.0} {distinct:.2} {busiest:.2}")
    }

    fn parse(text: &str) -> Self {
        let numbers: Vec<f64> = text.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [requests, reads, continued, mean_bytes, distinct, busiest] = numbers[..] else {
            panic!("{text}: not six numbers")
        };
        Self { requests: requests as usize, reads, continued, mean_bytes, distinct, busiest }
    }
}

fn shape(requests: &[Request]) -> Shape {
    let count = requests.len() as f64;
    let percent = |n: usize| 100.0 * n as f64 / count;
    let mut ends = [None; 2];
    let mut continued = 0;
    let mut blocks = std::collections::BTreeMap::<u64, usize>::new();
    for &(op, _, at, bytes) in requests {
        let end = &mut ends[usize::from(op == Op::Read)];
        continued += usize::from(*end == Some(at));
        *end = Some(at + bytes);
        *blocks.entry(at / 4096).or_default() += 1;
    }
    let mut counts: Vec<usize> = blocks.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let tenth = counts.len().div_ceil(10);
    Shape {
        requests: requests.len(),
        reads: percent(requests.iter().filter(|(op, ..)| *op == Op::Read).count()),
        continued: percent(continued),
        mean_bytes: requests.iter().map(|(_, _, _, bytes)| *bytes as f64).sum::<f64>() / count,
        distinct: percent(counts.len()),
        busiest: percent(counts[..tenth].iter().sum()),
    }
}

#[test]
fn random_jobs_have_the_shape_of_fios() {
    let jobs = [
        "rw=randread\nsize=4m\n",
        "rw=randwrite\nsize=4m\nnorandommap\nnumber_ios=4000\nio_size=1g\n",
        "rw=randread\nsize=16m\nio_size=32m\n",
        "rw=randrw\nrwmixread=80\nsize=64m\nnumber_ios=8000\n",
        "rw=randwrite\nsize=8m\nnrfiles=4\n",
        "rw=randtrimwrite\nsize=4m\n",
        "rw=randread\nsize=64m\npercentage_random=30\nnumber_ios=8000\n",
        "rw=randrw\nsize=64m\npercentage_random=70,20\nnumber_ios=8000\n",
        "rw=randread\nsize=256m\nbssplit=4k/30:64k/50:16k/20\nnumber_ios=6000\nnorandommap\n",
        "rw=randread\nsize=256m\nbsrange=4k-32k\nnumber_ios=6000\nnorandommap\n",
        "rw=randread:8\nsize=64m\nnumber_ios=8000\n",
        "rw=randread\nsize=16m\nrandom_distribution=zipf:1.2\nnumber_ios=40000\nio_size=1g\n",
        "rw=randread\nsize=16m\nrandom_distribution=zipf:0.8\nnumber_ios=40000\nio_size=1g\n",
        "rw=randread\nsize=16m\nrandom_distribution=pareto:0.3\nnumber_ios=40000\nio_size=1g\n",
        "rw=randread\nsize=16m\nrandom_distribution=normal:20\nnumber_ios=40000\nio_size=1g\n",
        "rw=randread\nsize=64m\nrandom_distribution=zoned:60/10:30/20:10/70\nnumber_ios=8000\nnorandommap\n",
    ];
    for (fio, options) in of_fio("random", &jobs, |requests| shape(requests).text()).into_iter().zip(jobs) {
        let (fio, here) = (Shape::parse(&fio), shape(&issued_here(options)));
        let close = |a: f64, b: f64, points: f64| (a - b).abs() <= points;
        assert!(
            fio.requests == here.requests
                && close(fio.reads, here.reads, 3.0)
                && close(fio.continued, here.continued, 3.0)
                && close(fio.distinct, here.distinct, 4.0)
                && close(fio.busiest, here.busiest, 5.0)
                && (0.95..1.05).contains(&(fio.mean_bytes / here.mean_bytes)),
            "{options}\nfio:   {fio:?}\nmodel: {here:?}"
        );
    }
}

#[test]
fn rates_issue_as_many_requests_as_fios() {
    // fio catches up after a delay of its own, so its count depends little on the load of this machine.
    let jobs = [
        "rw=read\nsize=1g\nruntime=1\nrate_iops=300\n",
        "rw=read\nbs=64k\nsize=1g\nruntime=1\nrate=16m\n",
        "rw=randrw\nrwmixread=90\nsize=1g\nruntime=1\nrate_iops=200,100\n",
        "rw=read\nsize=1g\nruntime=1\nrate_iops=1000\nrate_process=poisson\n",
    ];
    let counts = |requests: &[Request]| {
        [Op::Read, Op::Write].map(|op| requests.iter().filter(|request| request.0 == op).count())
    };
    let of = |requests: &[Request]| counts(requests).map(|count| count.to_string()).join(" ");
    for (fio, job) in of_fio("rates", &jobs, of).into_iter().zip(jobs) {
        for (fio, here) in fio.split(' ').zip(counts(&issued_here(job))) {
            let (fio, here) = (fio.parse::<f64>().expect("a number"), here as f64);
            assert!((fio - here).abs() <= 0.12 * here + 2.0, "{job}: fio {fio}, model {here}");
        }
    }
}
