//! Job files: what is honoured, what is refused and where.

use disks::Fixed;
use elevator::queue::Options;
use elevator::{Op, Sector, Span, Time};
use machine::{Machine, Next, Setup, Stop};
use schedulers::policies::noop::Noop;
use workloads::Workload;
use workloads::fio::JobFile;

const READERS: &str = "\
[global]
direct=1
ioengine=psync
bs=4k
size=64k
; four readers, far apart
[reader]
rw=read
numjobs=2
offset_increment=1g
thinktime=200
group_reporting
";

/// fio gives each job its own lines, also those of one name, which it tells apart by the process.
#[test]
fn jobs_of_one_name_are_told_apart() {
    let names = |text: &str| -> Vec<String> {
        JobFile::parse("jobs.fio", text).unwrap().jobs().iter().map(|job| job.name.clone()).collect()
    };
    let all = "[global]\nsize=64k\n";
    assert_eq!(names(&format!("{all}[a]\n[b]\n")), ["a", "b"]);
    assert_eq!(names(&format!("{all}[a]\n[b]\n[a]\n")), ["a-1", "b", "a-2"]);
    assert_eq!(names(&format!("{all}[a]\nnumjobs=2\n[a]\n")), ["a-1", "a-2", "a-3"]);
    assert_eq!(names(&format!("{all}[a]\nnumjobs=2\n[a-1]\n")), ["a-2", "a-3", "a-1"]);
}

#[test]
fn a_plain_job_file_becomes_processes() {
    let file = JobFile::parse("readers.fio", READERS).unwrap();
    assert_eq!(file.jobs().len(), 2);
    // The second clone's file lies behind the first one's, of 128 sectors.
    assert_eq!(file.jobs()[1].offset, Sector((1 << 21) + 128));
    assert_eq!(file.end(), Sector((1 << 21) + 256));
    assert!(
        file.notes[0].contains("readers.fio:12") && file.notes[0].contains("group_reporting"),
        "{:?}",
        file.notes
    );
    let mut processes = file.processes();
    let program = &mut processes[0].1;
    let (mut starts, mut thinks) = (Vec::new(), 0);
    loop {
        match program.next(Time::ZERO) {
            Next::Submit(io) => {
                assert_eq!((io.op, io.sectors.0), (Op::Read, 8));
                starts.push(io.start.0);
            }
            Next::Think(span) if span.as_nanos() == 200_000 => thinks += 1,
            Next::Exit => break,
            _ => {}
        }
    }
    assert_eq!(starts, (0..16).map(|n| n * 8).collect::<Vec<_>>());
    assert_eq!(thinks, 16);
}

#[test]
fn jobs_without_a_common_file_lie_one_behind_the_other() {
    let text = "[global]\nsize=1m\n[a]\nfilename=x\n[b]\n[c]\nfilename=x\noffset=4k\n";
    let file = JobFile::parse("f", text).unwrap();
    let offsets: Vec<u64> = file.jobs().iter().map(|job| job.offset.0).collect();
    // The third reaches beyond the first one's end, and the file is as long as that.
    assert_eq!(offsets, [0, 2056, 8]);
}

#[test]
fn clones_share_a_file_that_is_named_and_have_their_own_otherwise() {
    for pattern in ["read", "randwrite"] {
        let offsets = |more: &str| -> Vec<u64> {
            let text = format!("[global]\nsize=1m\n[a]\nrw={pattern}\nnumjobs=3\n{more}[b]\n");
            JobFile::parse("f", &text).unwrap().jobs().iter().map(|job| job.offset.0).collect()
        };
        assert_eq!(offsets(""), [0, 2048, 4096, 6144], "{pattern}");
        assert_eq!(offsets("filename=x\n"), [0, 0, 0, 2048], "{pattern}");
        assert_eq!(offsets("filename=x\noffset_increment=512k\n"), [0, 1024, 2048, 4096], "{pattern}");
        assert_eq!(offsets("offset=4k\noffset_increment=8k\n"), [8, 2080, 4168, 6216], "{pattern}");
    }
}

#[test]
fn sections_of_one_name_share_a_file_clone_by_clone() {
    let text = "[a]\nsize=64k\n[a]\nsize=64k\nrw=write\n[b]\nsize=64k\nnumjobs=2\n[b]\nsize=32k\n";
    let file = JobFile::parse("f", text).unwrap();
    let offsets: Vec<u64> = file.jobs().iter().map(|job| job.offset.0).collect();
    assert_eq!(offsets, [0, 0, 128, 256, 128]);
}

/// What a job asks for, in order: (operation, first sector).
fn asked(text: &str) -> Vec<(Op, u64)> {
    let mut processes = JobFile::parse("f", text).unwrap().processes();
    let program = &mut processes[0].1;
    let mut asked = Vec::new();
    loop {
        match program.next(Time::ZERO) {
            Next::Submit(io) => asked.push((io.op, io.start.0)),
            Next::Exit => return asked,
            _ => {}
        }
    }
}

#[test]
fn sequential_reads_and_writes_have_a_place_each() {
    let asked = asked("[a]\nrw=rw\nsize=128k\n");
    for op in [Op::Read, Op::Write] {
        let places: Vec<u64> = asked.iter().filter(|(o, _)| *o == op).map(|(_, start)| *start).collect();
        assert!(places.len() > 4, "{asked:?}");
        assert_eq!(places, (0..places.len() as u64).map(|n| n * 8).collect::<Vec<_>>());
    }
}

/// A job's requests with the milliseconds since its start at which they are made, if each is answered at once; and all its steps.
fn made(text: &str) -> (Vec<(Op, u64)>, Vec<Next>) {
    let mut processes = JobFile::parse("f", text).unwrap().processes();
    let program = &mut processes[0].1;
    let (mut now, mut made, mut steps) = (Time::ZERO, Vec::new(), Vec::new());
    loop {
        let next = program.next(now);
        match next {
            Next::Submit(io) => made.push((io.op, now.as_nanos() / 1_000_000)),
            Next::Until(at) => now = now.max(at),
            Next::Think(span) => now += span,
            Next::Exit => return (made, steps),
            _ => {}
        }
        steps.push(next);
    }
}

#[test]
fn each_direction_has_a_rate_of_its_own() {
    // fio 3.33 makes 199 reads and 199 writes a second of a mixed job with rate_iops=200, whatever the mix.
    for mix in [50, 90] {
        let text = format!("[a]\nrw=randrw\nrwmixread={mix}\nsize=1g\nrate_iops=200\nruntime=2\n");
        let (made, _) = made(&text);
        for op in [Op::Read, Op::Write] {
            let times: Vec<u64> = made.iter().filter(|(o, _)| *o == op).map(|&(_, at)| at).collect();
            assert_eq!(times, (0..400).map(|n| n * 5).collect::<Vec<_>>());
        }
    }
    let (made, _) = made("[a]\nrw=randrw\nrwmixread=100\nsize=64k\nrate_iops=100\n");
    assert_eq!(made, (0..16).map(|n| (Op::Read, n * 10)).collect::<Vec<_>>());
}

#[test]
fn nothing_is_in_flight_while_a_job_thinks_and_it_thinks_no_longer_than_it_runs() {
    let (made, steps) = made(
        "[a]\nrw=read\nsize=1m\nioengine=libaio\niodepth=8\nthinktime=30ms\nthinktime_blocks=4\nruntime=50ms\n",
    );
    assert_eq!(made.last(), Some(&(Op::Read, 30)));
    let thinks: Vec<usize> = (1..steps.len()).filter(|&n| matches!(steps[n], Next::Think(_))).collect();
    assert_eq!(thinks.len(), 2);
    assert!(thinks.iter().all(|&n| matches!(steps[n - 1], Next::Await(machine::Await::All))));
    assert!(matches!(steps[thinks[1]], Next::Think(span) if span == Span::from_millis(20)));
}

#[test]
fn a_file_may_be_longer_than_what_is_asked_of_it() {
    // Requests and their region as fio 3.33 has them, with the null engine and 4 KiB blocks.
    for (options, requests, from, to) in [
        ("filesize=64k\nsize=16k", 4, 0, 64),
        ("size=16k\nfilesize=64k", 4, 0, 64),
        ("filesize=16k\nsize=64k", 4, 0, 16),
        ("filesize=64k", 16, 0, 64),
        ("filesize=64k\nsize=10k", 3, 0, 64),
        ("filesize=64k\noffset=16k\nsize=32k", 8, 16, 64),
        ("filesize=64k\noffset=16k\nsize=64k", 12, 16, 64),
        ("size=64k\noffset=16k", 16, 16, 80),
        ("size=10k", 2, 0, 10),
        ("size=64k\nio_size=10k", 3, 0, 64),
        ("size=64k\nio_size=1k", 1, 0, 64),
        ("size=64k\nio_size=128k", 32, 0, 64),
    ] {
        let text = format!("[a]\nrw=randread\n{options}\n");
        assert_eq!(asked(&text).len(), requests, "{options}");
        let file = JobFile::parse("f", &text).unwrap();
        let job = &file.jobs()[0];
        let kib = |bytes: u64| bytes / 1024;
        let region = (kib(job.offset.bytes()), kib(job.offset.bytes() + job.region_bytes));
        assert_eq!(region, (from, to), "{options}");
    }
    let error = JobFile::parse("f", "[a]\nfilesize=64k\noffset=64k\n").unwrap_err();
    assert!(error.to_string().contains("holds no block"), "{error}");
}

#[test]
fn a_flush_follows_every_so_many_writes_and_no_read() {
    let asked = asked("[a]\nrw=randrw\nsize=1m\nfsync=4\n");
    let count = |op: Op| asked.iter().filter(|(o, _)| *o == op).count();
    assert_eq!(count(Op::Flush), count(Op::Write) / 4);
    assert!(asked.windows(2).all(|pair| pair[1].0 != Op::Flush || pair[0].0 == Op::Write));
}

#[test]
fn to_switch_one_kind_of_sync_off_leaves_the_other_on() {
    for text in ["fsync=4\nfdatasync=0", "fdatasync=0\nfsync=4", "fdatasync=4\nfsync=0", "fdatasync=4"] {
        let asked = asked(&format!("[a]\nrw=write\nsize=64k\n{text}\n"));
        assert_eq!(asked.iter().filter(|(op, _)| *op == Op::Flush).count(), 4, "{text}");
    }
}

#[test]
fn what_fio_takes_for_global_and_for_a_comment_is_taken_so() {
    let file =
        JobFile::parse("f", "[global-defaults]\nsize=1m ; for all\n[a]\nruntime=60  # a minute\n").unwrap();
    assert_eq!(
        file.jobs().iter().map(|job| (&*job.name, job.io_bytes)).collect::<Vec<_>>(),
        [("a", 1 << 20)]
    );
    assert_eq!(file.jobs()[0].runtime, Some(Span::from_secs(60)));
}

#[test]
fn what_is_taken_differently_is_said_once_for_all_clones() {
    let text = "[a]\nsize=1m\nnumjobs=20\niodepth=4\nioengine=libaio\nramp_time=5\nruntime=10\n";
    let file = JobFile::parse("x.fio", text).unwrap();
    assert_eq!(
        file.notes,
        [
            "x.fio:6: 'ramp_time' is passed over: a job runs for its runtime alone, and all of that is measured"
        ]
    );
    assert!(file.buffered().unwrap().starts_with("x.fio: [a-1], [a-2],"));
    assert!(file.buffered().unwrap().contains("[a-8], and 12 more: buffered"));
    assert_eq!(file.one_by_one(), None, "through the page cache, calls wait in Linux too");
    let direct = JobFile::parse("x.fio", &format!("{text}direct=1\n")).unwrap();
    assert_eq!(direct.buffered(), None);
    assert!(direct.one_by_one().unwrap().contains("it is 1 here"));
    assert!(file.describe().ends_with("; and 12 more"));
}

#[test]
fn no_runtime_is_no_end() {
    assert_eq!(asked("[a]\nrw=read\nsize=64k\nruntime=0\n").len(), 16);
}

#[test]
fn what_cannot_be_honoured_is_refused_where_it_stands() {
    for (text, line, word) in [
        ("[a]\nrw=read\nbs=3\nsize=1m\n", 3, "512"),
        ("[a]\nrw=backwards\nsize=1m\n", 2, "randread"),
        ("[a]\nrw=read\n", 1, "size"),
        ("[a]\nsize=4k\nbs=8k\n", 1, "holds no block"),
        ("[a]\nsize=1m\nverify=crc32c\n", 3, "not honoured"),
        ("[a]\nsize=1m\ntime_based\n", 1, "runtime"),
        ("[a]\nsize=50%\n", 2, "percentage"),
        ("[a]\nsize=1m\niodepth=0\n", 3, "from 1"),
        ("[a]\nsize=1m\nioengine=rbd\n", 3, "psync"),
        ("[a]\nsize=1m\nbs=4KiB\n", 3, "KiB"),
        ("[a]\nsize=1m\nkb_base=1000\n", 3, "1024"),
        ("[a]\nsize=1m\nnrfiles=4\n", 3, "one file"),
        ("[a]\nsize=1m\nfilename=/dev/sda:/dev/sdb\n", 3, "one file"),
        ("[a]\nsize=1m\niodepth_batch=16\n", 3, "one by one"),
        ("[a]\nsize=1m\nexitall\n", 3, "not honoured"),
        ("[global]\nsize=1m\n", 1, "no job"),
        ("[a]\nsize=1m\nbs=${BS}\n", 3, "write what they stand for"),
        ("[a]\nsize=$mb_memory\n", 2, "write what they stand for"),
        ("[a]\ninclude other.fio\n", 2, "not included"),
        ("[a]\ninclude\tother.fio\n", 2, "not included"),
        ("include other.fio\n[a]\nsize=1m\n", 1, "not included"),
        ("[]\nsize=1m\n", 1, "needs a name"),
        ("[a]\nsize=1m\noffset=1000\n", 3, "multiple of 512"),
        ("[a]\nsize=1m\noffset_increment=100\nnumjobs=2\n", 3, "multiple of 512"),
        ("[a]\nrw=read:8k\nsize=1m\n", 2, "a number behind it"),
        ("[a]\nfsync=1\nsize=1m\nfdatasync=1\n", 1, "both"),
    ] {
        let error = JobFile::parse("x.fio", text).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn every_option_that_is_not_honoured_is_told_at_once() {
    let text = "[global]\nverify=md5\nbs=1000\n[a]\nsize=1m\nrw=read\nlatency_target=10ms\n";
    let error = JobFile::parse("x.fio", text).unwrap_err().to_string();
    assert!(error.starts_with("x.fio:2: option 'verify=md5': is not honoured"), "{error}");
    for word in
        ["; line 3: option 'bs=1000': must be", "; line 7: option 'latency_target=10ms': is not honoured"]
    {
        assert!(error.contains(word), "{error}");
    }
    assert!(!error.contains("size") && !error.contains("rw="), "{error}");
}

#[test]
fn arbitrary_text_is_refused_or_read_but_never_a_panic() {
    let mut random = elevator::Random::new(7);
    for _ in 0..20_000 {
        let mut text = READERS.as_bytes().to_vec();
        for _ in 0..1 + random.below(6) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(3) {
                0 => text[at] = random.below(256) as u8,
                1 => text.truncate(at),
                _ => text.insert(at, random.below(256) as u8),
            }
            if text.is_empty() {
                break;
            }
        }
        let _ = JobFile::parse("fuzzed", &String::from_utf8_lossy(&text));
    }
}

const ONE_BEHIND_THE_OTHER: &str = "\
[global]
direct=1
rw=read
bs=4k
size=64k
[a]
[b]
[c]
stonewall
numjobs=2
[d]
stonewall
startdelay=1
";

/// How long each job took, in microseconds.
fn run(file: &JobFile) -> Vec<(String, u64)> {
    let mut machine = Machine::new(Setup {
        options: Options::default(),
        scheduler: Box::new(Noop::default()),
        drive: Box::new(Fixed::new(1 << 30, 1, Span::from_micros(100))),
        observer: None,
    });
    for (who, program) in file.processes() {
        machine.start(who, program);
    }
    machine.run(Stop::default()).unwrap();
    let processes = machine.measured().processes;
    processes.into_iter().map(|it| (it.name, it.elapsed_ns / 1000)).collect()
}

#[test]
fn a_job_behind_a_stonewall_begins_when_those_before_it_have_ended() {
    let file = JobFile::parse("f", ONE_BEHIND_THE_OTHER).unwrap();
    let groups: Vec<usize> = file.groups().iter().map(|group| group.len()).collect();
    assert_eq!(groups, [2, 2, 1]);
    // Sixteen requests each, of 100 us, by turns with the other one of the group; the last one waits for a second first.
    let elapsed =
        [("fio", 1_008_000), ("a", 3100), ("b", 3200), ("c-1", 3100), ("c-2", 3200), ("d", 1_001_600)];
    assert_eq!(run(&file), elapsed.map(|(name, us)| (name.to_owned(), us)));
}

#[test]
fn a_job_that_discards_is_not_said_to_write() {
    let file = JobFile::parse("f", "[a]\nrw=randtrim\nsize=1m\n").unwrap();
    assert_eq!(file.describe(), "fio f: a (random, discards, 4096 bytes, depth 1)");
}

#[test]
fn fuzzing_begins_with_what_is_understood() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/job_file");
    for seed in std::fs::read_dir(seeds).unwrap() {
        JobFile::parse("seed", &std::fs::read_to_string(seed.unwrap().path()).unwrap()).unwrap();
    }
}
