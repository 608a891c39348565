//! fio job files: which requests they make, and the errors for what is unsupported.

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

/// fio reports jobs of one name separately as well.
#[test]
fn jobs_of_one_name_get_numbers() {
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
    // The second clone's file follows the first one's, which has 128 sectors.
    assert_eq!(file.jobs()[1].regions[0].offset, Sector((1 << 21) + 128));
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
fn files_lie_one_after_the_other() {
    let text = "[global]\nsize=1m\n[a]\nfilename=x\n[b]\n[c]\nfilename=x\noffset=4k\n";
    let file = JobFile::parse("f", text).unwrap();
    let offsets: Vec<u64> = file.jobs().iter().map(|job| job.regions[0].offset.0).collect();
    // The third job extends the file that it shares with the first.
    assert_eq!(offsets, [0, 2056, 8]);
}

#[test]
fn clones_share_a_named_file() {
    for pattern in ["read", "randwrite"] {
        let offsets = |more: &str| -> Vec<u64> {
            let text = format!("[global]\nsize=1m\n[a]\nrw={pattern}\nnumjobs=3\n{more}[b]\n");
            JobFile::parse("f", &text).unwrap().jobs().iter().map(|job| job.regions[0].offset.0).collect()
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
    let offsets: Vec<u64> = file.jobs().iter().map(|job| job.regions[0].offset.0).collect();
    assert_eq!(offsets, [0, 0, 128, 256, 128]);
}

/// The requests of a job in order: (operation, first sector).
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
fn sequential_reads_and_writes_have_positions_of_their_own() {
    let asked = asked("[a]\nrw=rw\nsize=128k\n");
    for op in [Op::Read, Op::Write] {
        let places: Vec<u64> = asked.iter().filter(|(o, _)| *o == op).map(|(_, start)| *start).collect();
        assert!(places.len() > 4, "{asked:?}");
        assert_eq!(places, (0..places.len() as u64).map(|n| n * 8).collect::<Vec<_>>());
    }
}

/// The requests of a job with their times in milliseconds since its start, if each completes at once; and all its steps.
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
    // fio 3.33 issues 199 reads and 199 writes a second of a mixed job with rate_iops=200, whatever the mix.
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
fn pauses_wait_for_requests_in_flight_and_end_with_the_runtime() {
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
fn size_filesize_offset_and_io_size() {
    // Number and region of requests as issued by fio 3.33 with the null engine and 4 KiB blocks.
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
        let region = &job.regions[0];
        let region = (kib(region.offset.bytes()), kib(region.offset.bytes() + region.bytes));
        assert_eq!(region, (from, to), "{options}");
    }
    let error = JobFile::parse("f", "[a]\nfilesize=64k\noffset=64k\n").unwrap_err();
    assert!(error.to_string().contains("holds no block"), "{error}");
}

#[test]
fn fsync_counts_writes() {
    let asked = asked("[a]\nrw=randrw\nsize=1m\nfsync=4\n");
    let count = |op: Op| asked.iter().filter(|(o, _)| *o == op).count();
    assert_eq!(count(Op::Flush), count(Op::Write) / 4);
    assert!(asked.windows(2).all(|pair| pair[1].0 != Op::Flush || pair[0].0 == Op::Write));
}

#[test]
fn zero_disables_one_kind_of_sync() {
    for text in ["fsync=4\nfdatasync=0", "fdatasync=0\nfsync=4", "fdatasync=4\nfsync=0", "fdatasync=4"] {
        let asked = asked(&format!("[a]\nrw=write\nsize=64k\n{text}\n"));
        assert_eq!(asked.iter().filter(|(op, _)| *op == Op::Flush).count(), 4, "{text}");
    }
}

#[test]
fn global_sections_and_comments() {
    let file =
        JobFile::parse("f", "[global-defaults]\nsize=1m ; for all\n[a]\nruntime=60  # a minute\n").unwrap();
    assert_eq!(
        file.jobs().iter().map(|job| (&*job.name, job.io_bytes)).collect::<Vec<_>>(),
        [("a", 1 << 20)]
    );
    assert_eq!(file.jobs()[0].runtime, Some(Span::from_secs(60)));
}

#[test]
fn a_file_of_discards_only_has_a_note() {
    let note = |text: &str| JobFile::parse("x.fio", text).unwrap().only_discards();
    assert!(note("[a]\nrw=randtrim\nsize=1m\n").unwrap().starts_with("x.fio: every job discards: "));
    assert_eq!(note("[a]\nrw=trimwrite\nsize=1m\n"), None);
    assert_eq!(note("[a]\nrw=trim\nsize=1m\n[b]\nrw=read\nsize=1m\n"), None);
}

#[test]
fn notes_appear_once_for_all_clones() {
    let text = "[a]\nsize=1m\nnumjobs=20\niodepth=4\nioengine=libaio\nthread\nruntime=10\n";
    let file = JobFile::parse("x.fio", text).unwrap();
    assert_eq!(file.notes, ["x.fio:6: 'thread' has no effect: only affects the machine that runs fio"]);
    assert!(file.buffered().unwrap().starts_with("x.fio: [a-1], [a-2],"));
    assert!(file.buffered().unwrap().contains("[a-8], and 12 more: buffered"));
    assert_eq!(file.one_by_one(), None, "buffered calls are synchronous in Linux as well");
    let direct = JobFile::parse("x.fio", &format!("{text}direct=1\n")).unwrap();
    assert_eq!(direct.buffered(), None);
    assert!(direct.one_by_one().unwrap().contains("the depth is 1 here"));
    assert!(file.describe().ends_with("; and 12 more"));
}

#[test]
fn a_runtime_of_zero_is_no_limit() {
    assert_eq!(asked("[a]\nrw=read\nsize=64k\nruntime=0\n").len(), 16);
}

#[test]
fn errors_name_line_and_option() {
    for (text, line, word) in [
        ("[a]\nrw=read\nbs=3\nsize=1m\n", 3, "512"),
        ("[a]\nrw=backwards\nsize=1m\n", 2, "trimwrite"),
        ("[a]\nrw=read\n", 1, "size"),
        ("[a]\nsize=4k\nbs=8k\n", 1, "holds no block"),
        ("[a]\nsize=1m\nverify=crc\n", 3, "crc32c"),
        ("[a]\nsize=1m\ntime_based\n", 1, "runtime"),
        ("[a]\nsize=${SIZE}\n", 2, "write the value of SIZE, or replace all variables with 'envsubst"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:0.8/50\n", 3, "such as zipf:0.8:0.5"),
        ("[a]\nsize=50%\n", 1, "filesize"),
        ("[a]\nsize=150%\n", 2, "percentage"),
        ("[a]\nsize=0%\n", 2, "above 0%"),
        ("[a]\nsize=1m\noffset=-1%\n", 3, "percentage"),
        ("[a]\nsize=1m\nverify_only\n", 3, "remove it"),
        ("[a]\nsize=1m\niodepth=0\n", 3, "from 1"),
        ("[a]\nsize=1m\nioengine=rbd\n", 3, "psync"),
        ("[a]\nsize=1m\nbs=4KiB\n", 3, "KiB"),
        ("[a]\nsize=1m\nkb_base=1000\n", 3, "1024"),
        ("[a]\nsize=1m\nnrfiles=0\n", 3, "from 1"),
        ("[a]\nsize=16k\nnrfiles=5\n", 1, "3276 bytes for each of its 5 files"),
        ("[a]\nsize=1m\nnrfiles=2\nfile_service_type=zipf:1.2\n", 1, "only roundrobin"),
        ("[a]\nsize=1m\nfile_service_type=best\n", 3, "expected roundrobin"),
        ("[a]\nfilename=/dev/sda:/dev/sdb\n", 1, "has 2 files and needs a size"),
        ("[a]\nsize=1m\nfilename=:\n", 3, "expected a file"),
        ("[a]\nsize=1.5g\n", 2, "write 1536m"),
        ("[a]\nsize=1m\nruntime=1.5\n", 3, "write 1500ms"),
        ("[a]\nsize=1m\n[b]\nwait_for=c\nsize=1m\n[c]\nsize=1m\n", 3, "no job before it has this name"),
        ("[a]\nsize=1m\nwait_for=a\n", 1, "no job before it has this name"),
        ("[a]\nsize=1m\n[a]\nsize=1m\n[b]\nwait_for=a\nsize=1m\n", 5, "several jobs"),
        ("[a]\nsize=1m\niodepth_batch=x\n", 3, "from 0"),
        ("[a]\nsize=1m\niodepth_low=0\n", 3, "from 1"),
        ("[a]\nsize=1m\nramp_time=soon\n", 3, "expected a time"),
        ("[a]\nsize=1m\nexit_what=some\n", 3, "expected group or stonewall or all"),
        ("[global]\nsize=1m\n", 1, "no job"),
        ("[a]\nsize=1m\nbs=${BS}\n", 3, "write the value"),
        ("[a]\nsize=$mb_memory\n", 2, "write the value"),
        ("[a]\ninclude other.fio\n", 2, "insert the text of other.fio"),
        ("[a]\ninclude\tother.fio\n", 2, "insert the text of other.fio"),
        ("include other.fio\n[a]\nsize=1m\n", 1, "insert the text of other.fio"),
        ("[]\nsize=1m\n", 1, "needs a name"),
        ("[a]\nsize=1m\noffset=1000\n", 3, "multiple of 512"),
        ("[a]\nsize=1m\noffset_increment=100\nnumjobs=2\n", 3, "multiple of 512"),
        ("[a]\nrate=1m\nsize=1m\nrate_iops=10\n", 1, "both rate and rate_iops"),
        ("[a]\nsize=1m\nbs=4k-16k\n", 3, "bsrange"),
        ("[a]\nsize=1m\nbssplit=4k/60:8k/50\n", 3, "at most 100"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:1\n", 3, "theta"),
        ("[a]\nsize=1m\nrandom_distribution=zipf:1.1/0.5\nrw=trim\n", 3, "zipf:1.1/0.5"),
        ("[a]\nsize=1m\nrandom_distribution=zoned_abs:100/2m\n", 1, "beyond its size"),
        ("[a]\nsize=1m\nstartdelay=5-1\n", 3, "shorter time first"),
        ("[a]\nsize=1m\nstartdelay=1-x\n", 3, "expected a time"),
        ("[a]\nsize=1m\nrate_min=1m\n", 3, "remove the option"),
        ("[a]\nsize=1m\niodpeth=4\n", 3, "did you mean 'iodepth'"),
    ] {
        let error = JobFile::parse("x.fio", text).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn one_error_lists_all_rejected_options() {
    let text = "[global]\natomic=1\nbs=1000\n[a]\nsize=1m\nrw=read\nlatency_target=10ms\n[b]\nrate_min=1m\n";
    let error = JobFile::parse("x.fio", text).unwrap_err().to_string();
    // Those of [global] once, although they concern both jobs.
    let lines: Vec<&str> = error.lines().collect();
    let expected = [
        "x.fio:2: option 'atomic=1': atomic writes",
        "x.fio:3: option 'bs=1000': must be",
        "x.fio:7: option 'latency_target=10ms': closed loops",
        "x.fio:9: option 'rate_min=1m': a job is not aborted",
    ];
    assert_eq!(lines.len(), expected.len(), "{error}");
    assert!(lines.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{error}");
}

#[test]
fn mutated_job_files_do_not_panic() {
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
fn stonewall_waits_for_all_jobs_before() {
    let file = JobFile::parse("f", ONE_BEHIND_THE_OTHER).unwrap();
    let groups: Vec<usize> = file.groups().iter().map(|group| group.len()).collect();
    assert_eq!(groups, [2, 2, 1]);
    // Sixteen requests of 100 us each, alternating with the other job of the group; the last job starts a second after the first.
    let elapsed =
        [("fio", 1_001_600), ("a", 3100), ("b", 3200), ("c-1", 3100), ("c-2", 3200), ("d", 995_200)];
    assert_eq!(run(&file), elapsed.map(|(name, us)| (name.to_owned(), us)));
}

/// When each job ended, in milliseconds.
fn ends(text: &str) -> Vec<(String, u64)> {
    let all = "[global]\ndirect=1\nbs=4k\nsize=1m\nrate_iops=1000\n";
    let file = JobFile::parse("f", &format!("{all}{text}")).unwrap();
    run(&file).into_iter().map(|(name, us)| (name, us / 1000)).collect()
}

fn named(ends: &[(&str, u64)]) -> Vec<(String, u64)> {
    ends.iter().map(|&(name, ms)| (name.to_owned(), ms)).collect()
}

#[test]
fn jobs_wait_for_jobs_by_name() {
    let text = "[a]\nnumjobs=2\nnumber_ios=20\n[b]\nwait_for=a\nnumber_ios=30\n[c]\nnumber_ios=25\n[d]\nwait_for=b\nnumber_ios=10\n";
    let ended = ends(text);
    let of = |name: &str| ended.iter().find(|(known, _)| known == name).map(|(_, ms)| *ms).unwrap();
    // 20, 30 and 10 requests of a millisecond, one group behind the other, and 25 beside them.
    assert_eq!((of("a-1"), of("a-2"), of("b"), of("c"), of("d")), (19, 19, 29, 24, 9), "{ended:?}");
    assert_eq!(of("fio"), 57, "{ended:?}");
    // A job of an earlier group has ended.
    let text = "[a]\nnumber_ios=20\n[b]\nstonewall\nwait_for=a\nnumber_ios=5\n";
    assert_eq!(ends(text), named(&[("fio", 23), ("a", 19), ("b", 4)]));
}

#[test]
fn jobs_end_with_the_first_one() {
    let two = |first: &str, second: &str| format!("[a]\n{first}number_ios=20\n[b]\n{second}number_ios=60\n");
    // As in fio, the option of any job counts.
    assert_eq!(ends(&two("exitall\n", "")), named(&[("a", 19), ("b", 19)]));
    assert_eq!(ends(&two("", "exitall\n")), named(&[("a", 19), ("b", 19)]));
    assert_eq!(ends(&two("exitall=0\n", "")), named(&[("a", 19), ("b", 59)]));
    assert_eq!(ends(&two("exitall\n", "new_group\n")), named(&[("a", 19), ("b", 59)]));
    let third = "[c]\nstonewall\nnumber_ios=10\n";
    let stage = two("exitall\nexit_what=stonewall\n", "new_group\n") + third;
    let stage = ends(&stage);
    assert!(stage.contains(&("b".to_owned(), 19)) && stage.contains(&("c".to_owned(), 9)), "{stage:?}");
    let all = ends(&(two("exitall\nexit_what=all\n", "new_group\n") + third));
    assert!(all.contains(&("b".to_owned(), 19)) && all.contains(&("c".to_owned(), 0)), "{all:?}");
    // A job in a pause ends soon, one that has not begun never does anything.
    let paused = ends("[a]\nexitall\nnumber_ios=20\n[b]\nthinktime=10s\nnumber_ios=60\n[c]\nstartdelay=60\n");
    assert!(paused.iter().all(|(name, ms)| name == "a" || *ms <= 30), "{paused:?}");
}

#[test]
fn a_start_is_drawn_from_a_range() {
    let text = "[a]\nsize=1m\nnumjobs=20\nstartdelay=1-2s\n[b]\nsize=1m\nstartdelay=500ms\n";
    let file = JobFile::parse("f", text).unwrap();
    let delays: Vec<u64> = file.jobs().iter().map(|job| job.start_delay.as_nanos() / 1_000_000).collect();
    assert!(
        delays[..20].iter().all(|delay| (1000..=2000).contains(delay)) && delays[20] == 500,
        "{delays:?}"
    );
    assert!(delays[..20].iter().any(|delay| *delay < 1400) && delays[..20].iter().any(|delay| *delay > 1600));
}

#[test]
fn a_job_with_several_files_uses_all() {
    let file =
        JobFile::parse("f", "[a]\nsize=64k\nnrfiles=4\nnumjobs=2\n[b]\nsize=12k\nfilename=x:y\\:z:a.1.3\n")
            .unwrap();
    let regions = |n: usize| -> Vec<(String, u64, u64)> {
        let of = |region: &workloads::fio::Region| (region.file.clone(), region.offset.0, region.bytes);
        file.jobs()[n].regions.iter().map(of).collect()
    };
    assert_eq!(regions(0)[3], ("a.0.3".to_owned(), 96, 16384));
    assert_eq!(regions(1)[0], ("a.1.0".to_owned(), 128, 16384));
    // The last file is that of the other job.
    let expected = [("x", 256, 4096), ("y:z", 264, 4096), ("a.1.3", 224, 4096)];
    assert_eq!(regions(2), expected.map(|(name, at, bytes)| (name.to_owned(), at, bytes)));
    assert!(file.describe().contains("4 files, depth 1"), "{}", file.describe());
}

#[test]
fn descriptions_of_discarding_jobs() {
    let file = JobFile::parse("f", "[a]\nrw=randtrim\nsize=1m\n").unwrap();
    assert_eq!(file.describe(), "fio f: a (random, discards, 4096 bytes, depth 1)");
}

#[test]
fn fuzz_seeds_are_valid() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/job_file");
    for seed in std::fs::read_dir(seeds).unwrap() {
        JobFile::parse("seed", &std::fs::read_to_string(seed.unwrap().path()).unwrap()).unwrap();
    }
}

/// The requests of a job, each with its time in microseconds since the start if requests complete at once.
fn issued(text: &str) -> Vec<(Op, u64, u64, u64)> {
    let mut processes = JobFile::parse("f", text).unwrap().processes();
    let program = &mut processes[0].1;
    let (mut now, mut issued) = (Time::ZERO, Vec::new());
    loop {
        match program.next(now) {
            Next::Submit(io) => {
                issued.push((io.op, io.start.bytes(), io.sectors.bytes(), now.as_nanos() / 1000));
            }
            Next::Until(at) => now = now.max(at),
            Next::Think(span) => now += span,
            Next::Exit => return issued,
            _ => {}
        }
    }
}

fn offsets_kib(text: &str) -> Vec<u64> {
    issued(text).iter().map(|(_, at, ..)| at / 1024).collect()
}

fn times_ms(text: &str) -> Vec<u64> {
    issued(text).iter().map(|(.., us)| us / 1000).collect()
}

#[test]
fn rate_limits_bytes_of_each_direction() {
    let times = times_ms("[a]\nrw=read\nbs=64k\nsize=512k\nrate=1m\n");
    assert_eq!(times, [0, 62, 125, 187, 250, 312, 375, 437]);
    // `rate=500k,` limits reads only, `rate=,500k` writes only.
    for (rate, limited) in [("128k,", true), (",128k", false)] {
        let times = times_ms(&format!("[a]\nrw=read\nbs=64k\nsize=256k\nrate={rate}\n"));
        assert_eq!(times.last() == Some(&1500), limited, "{times:?}");
    }
}

#[test]
fn poisson_intervals_have_the_mean_of_the_rate() {
    let text = "[a]\nrw=read\nsize=40m\nrate_iops=1000\nrate_process=poisson\n";
    let times: Vec<u64> = issued(text).iter().map(|(.., us)| *us).collect();
    let intervals: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = intervals.iter().sum::<u64>() as f64 / intervals.len() as f64;
    assert!((950.0..1050.0).contains(&mean), "{mean}");
    // Of an exponential distribution, 1 - 1/e = 63.2% are below the mean.
    let below = intervals.iter().filter(|&&interval| interval < 1000).count() as f64 / intervals.len() as f64;
    assert!((0.61..0.65).contains(&below), "{below}");
}

#[test]
fn pauses_by_blocks_and_by_time() {
    let base = "[a]\nrw=read\nsize=32k\nthinktime=10ms\n";
    assert_eq!(times_ms(&format!("{base}thinktime_blocks=3\n")), [0, 0, 0, 10, 10, 10, 20, 20]);
    // Spinning is a part of the pause.
    let spinning = times_ms(&format!("{base}thinktime_blocks=3\nthinktime_spin=4ms\n"));
    assert_eq!(spinning, [0, 0, 0, 10, 10, 10, 20, 20]);
    // With a time and no number of blocks, only time counts.
    let by_time = times_ms(&format!("{base}rate_iops=500\nthinktime_iotime=5ms\nrate_ignore_thinktime=1\n"));
    assert_eq!(by_time, [0, 2, 4, 6, 16, 18, 20, 22]);
}

#[test]
fn a_rate_catches_up_after_pauses_unless_it_ignores_them() {
    let base = "[a]\nrw=read\nsize=32k\nrate_iops=1000\nthinktime=10ms\nthinktime_blocks=4\n";
    assert_eq!(times_ms(base), [0, 1, 2, 3, 13, 13, 13, 13]);
    assert_eq!(times_ms(&format!("{base}rate_ignore_thinktime=1\n")), [0, 1, 2, 3, 13, 14, 15, 16]);
}

#[test]
fn a_random_job_accesses_every_block_once_a_pass() {
    for more in ["io_size=128k\n", "loops=2\n", "time_based\nruntime=1\nnumber_ios=32\n"] {
        let mut offsets = offsets_kib(&format!("[a]\nrw=randread\nsize=64k\n{more}"));
        assert_eq!(offsets.len(), 32, "{more}");
        for pass in offsets.chunks_mut(16) {
            pass.sort_unstable();
            assert_eq!(pass.to_vec(), (0..16).map(|n| n * 4).collect::<Vec<_>>(), "{more}");
        }
    }
    let mut offsets = offsets_kib("[a]\nrw=randread\nsize=1m\nnorandommap\n");
    offsets.sort_unstable();
    offsets.dedup();
    assert!((130..200).contains(&offsets.len()), "1 - 1/e of 256 blocks: {}", offsets.len());
}

#[test]
fn percentage_random_mixes_sequential_requests_in() {
    let continued = |percent: u64| {
        let text = format!("[a]\nrw=randread\nsize=64m\nnumber_ios=4000\npercentage_random={percent}\n");
        let offsets = offsets_kib(&text);
        offsets.windows(2).filter(|pair| pair[1] == pair[0] + 4).count() as f64 / 40.0
    };
    assert!(continued(0) > 99.9);
    assert!((67.0..73.0).contains(&continued(30)), "{}", continued(30));
    assert!(continued(100) < 1.0);
}

#[test]
fn numbers_behind_the_pattern() {
    assert_eq!(offsets_kib("[a]\nrw=read:8k\nsize=48k\nnumber_ios=6\n"), [0, 12, 24, 36, 0, 12]);
    assert_eq!(offsets_kib("[a]\nrw=read:-8k\nsize=16k\nnumber_ios=4\n"), [0, 8, 4, 0]);
    let offsets = offsets_kib("[a]\nrw=randread:4\nsize=64m\nnumber_ios=16\n");
    let jumps: Vec<usize> = (1..16).filter(|&n| offsets[n] != offsets[n - 1] + 4).collect();
    assert_eq!(jumps, [3, 7, 11, 15]);
    let offsets = offsets_kib("[a]\nrw=randread:4\nrw_sequencer=identical\nsize=64m\nnumber_ios=12\n");
    assert_eq!(offsets[..3], [0; 3]);
    assert!(offsets[3..].chunks(4).all(|run| run.iter().all(|at| *at == run[0])), "{offsets:?}");
}

#[test]
fn request_sizes_by_range_split_and_direction() {
    let sizes =
        |text: &str| -> Vec<u64> { issued(text).iter().map(|(_, _, bytes, _)| bytes / 1024).collect() };
    let share =
        |sizes: &[u64], size: u64| 100 * sizes.iter().filter(|&&drawn| drawn == size).count() / sizes.len();
    let split = sizes("[a]\nrw=randread\nsize=1g\nbssplit=4k/10:64k/60:32k/\nnorandommap\nnumber_ios=5000\n");
    assert!((8..=12).contains(&share(&split, 4)) && (58..=62).contains(&share(&split, 64)));
    let range = sizes("[a]\nrw=randread\nsize=1g\nbsrange=4k-16k\nnorandommap\nnumber_ios=5000\n");
    assert!(
        [4, 8, 12, 16].iter().all(|&size| (22..=28).contains(&share(&range, size))),
        "{}",
        share(&range, 4)
    );
    let both = issued("[a]\nrw=rw\nsize=1m\nbs=8k,16k\n");
    assert!(both.iter().all(|&(op, _, bytes, _)| bytes == if op == Op::Read { 8192 } else { 16384 }));
    let trims = issued("[a]\nrw=trim\nsize=1m\nbs=4k,8k,64k\n");
    assert!(trims.iter().all(|&(op, _, bytes, _)| op == Op::Discard && bytes == 65536));
    let by_pattern =
        "[a]\nrw=randread\nsize=64m\nbs=4k,16k\nbs_is_seq_rand\npercentage_random=50\nnorandommap\n";
    assert!((45..=55).contains(&share(&sizes(by_pattern), 16)));
}

/// The share of accesses in percent that the busiest tenth of the blocks has.
fn busiest_tenth(distribution: &str) -> u64 {
    let text = format!(
        "[a]\nrw=randread\nsize=4m\nnumber_ios=100000\nio_size=1g\nnorandommap\nrandom_distribution={distribution}\n"
    );
    let mut counts = vec![0_u64; 1024];
    offsets_kib(&text).iter().for_each(|at| counts[*at as usize / 4] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    100 * counts[..102].iter().sum::<u64>() / counts.iter().sum::<u64>()
}

#[test]
fn distributions_concentrate_accesses() {
    assert!((10..=16).contains(&busiest_tenth("random")));
    // The sum of k^-1.2 up to 102 over that up to 1024 is 0.78; the hash may put two popular blocks on one.
    assert!((74..=84).contains(&busiest_tenth("zipf:1.2")), "{}", busiest_tenth("zipf:1.2"));
    // x^h of the blocks have 1 - x of the accesses: 0.1^(log(0.8)/log(0.2)) = 0.73.
    assert!((69..=78).contains(&busiest_tenth("pareto:0.2")), "{}", busiest_tenth("pareto:0.2"));
    assert!((85..=99).contains(&busiest_tenth("zoned:90/5:5/20:5/75")));
    let zoned = offsets_kib(
        "[a]\nrw=randread\nsize=64m\nnumber_ios=5000\nnorandommap\nrandom_distribution=zoned_abs:80/1m:20/4m\n",
    );
    let hot = zoned.iter().filter(|&&at| at < 1024).count();
    assert!((3800..=4200).contains(&hot) && zoned.iter().all(|&at| at < 5 * 1024), "{hot}");
}

#[test]
fn synchronous_writes_carry_fua() {
    let mut processes = JobFile::parse("f", "[a]\nrw=write\nsize=8k\nsync=1\n").unwrap().processes();
    let program = &mut processes[0].1;
    let mut writes = 0;
    loop {
        match program.next(Time::ZERO) {
            Next::Submit(io) => {
                assert!(io.flags.fua);
                writes += 1;
            }
            Next::Exit => break,
            _ => {}
        }
    }
    assert_eq!(writes, 2);
}

/// Regions (first byte, bytes) of the jobs on a device of a hundred MiB.
fn regions_mib(text: &str) -> Vec<(u64, u64)> {
    let file = JobFile::parse_on_device("f", text, 100 << 20).unwrap();
    let region = |region: &workloads::fio::Region| (region.offset.bytes() >> 20, region.bytes >> 20);
    file.jobs().iter().flat_map(|job| &job.regions).map(region).collect()
}

/// The numbers are those that fio 3.33 accesses of a file of 100 MiB.
#[test]
fn sizes_and_positions_are_parts_of_the_device() {
    for (options, regions) in [
        ("", &[(0, 100)][..]),
        ("size=0", &[(0, 100)]),
        ("size=50%", &[(0, 50)]),
        ("size=50%\noffset=10%", &[(10, 50)]),
        ("size=50%\noffset=90%", &[(90, 10)]),
        ("offset=33%", &[(33, 67)]),
        ("size=20m\noffset=10%", &[(10, 20)]),
        ("size=50%\nnumjobs=2\noffset_increment=10%", &[(0, 50), (10, 50)]),
        ("numjobs=3\noffset_increment=40%", &[(0, 100), (40, 60), (80, 20)]),
        ("filesize=40m\nsize=50%\noffset=10%", &[(4, 36)]),
    ] {
        assert_eq!(regions_mib(&format!("[a]\nbs=1m\n{options}\n")), regions, "{options}");
    }
    let once = |text: &str| JobFile::parse_on_device("f", text, 100 << 20).unwrap().jobs()[0].io_bytes >> 20;
    assert_eq!(once("[a]\nbs=1m\nfilesize=40m\nsize=50%\n"), 20);
    assert_eq!(once("[a]\nbs=1m\nio_size=10%\n"), 10);
    assert_eq!(once("[a]\nbs=1m\nio_size=200m\n"), 200);
}

#[test]
fn jobs_on_the_device_share_it() {
    let text = "[global]\nbs=1m\n[a]\n[b]\nsize=4m\noffset=8m\n[c]\nfilename=/dev/sdx\nsize=25%\n";
    assert_eq!(regions_mib(text), [(0, 100), (8, 4), (0, 25)]);
    let of = |text: &str| JobFile::parse_on_device("x.fio", text, 1 << 20).unwrap_err();
    let two = of("[a]\nfilename=/dev/sdx\n[b]\nfilename=/dev/sdy\nsize=4k\n");
    assert!(two.line == 3 && two.to_string().contains("[a] has no size"), "{two}");
    let behind = of("[a]\nnumjobs=3\noffset_increment=50%\n");
    assert!(behind.to_string().contains("clone 3 begins beyond the end of the device"), "{behind}");
}

#[test]
fn a_job_that_verifies_reads_what_it_wrote() {
    use Op::{Read, Write};
    let pass = [(Write, 0), (Write, 8), (Read, 0), (Read, 8)];
    assert_eq!(asked("[a]\nrw=write\nsize=8k\nverify=md5\n"), pass);
    assert_eq!(asked("[a]\nrw=write\nsize=8k\nverify=md5\nloops=2\n"), [pass, pass].concat());
    assert_eq!(asked("[a]\nrw=write\nsize=8k\nverify=md5\ndo_verify=0\n"), pass[..2]);
    assert_eq!(asked("[a]\nrw=write\nsize=8k\nverify=md5\nnumber_ios=1\n"), [(Write, 0), (Read, 0)]);
    assert_eq!(asked("[a]\nrw=read\nsize=8k\nverify=md5\n"), [(Read, 0), (Read, 8)]);
    let random = asked("[a]\nrw=randwrite\nnorandommap\nsize=64k\nverify=meta\n");
    let written = random.iter().filter(|(op, _)| *op == Write).count();
    let read: Vec<u64> = random.iter().filter(|(op, _)| *op == Read).map(|(_, at)| *at).collect();
    assert_eq!(written, 16);
    assert!(read.is_sorted_by(|a, b| a < b) && (1..16).contains(&read.len()), "{read:?}");
}

#[test]
fn full_queues_wait_for_several_completions() {
    let waits = |options: &str| -> Vec<u32> {
        let text = format!("[a]\nrw=read\nsize=32k\nioengine=libaio\niodepth=4\n{options}\n");
        let (_, steps) = made(&text);
        let fewer = |step: &Next| match step {
            Next::Await(machine::Await::Fewer(count)) => Some(*count),
            _ => None,
        };
        steps.iter().filter_map(fewer).collect()
    };
    assert_eq!(waits(""), [4; 5]);
    assert_eq!(waits("iodepth_batch_complete_min=3"), [2; 2]);
    assert_eq!(waits("iodepth_low=1"), [2; 2]);
    let times = |batch: u32| {
        times_ms(&format!(
            "[a]\nrw=read\nsize=32k\nioengine=libaio\niodepth=8\nrate_iops=100\niodepth_batch={batch}\n"
        ))
    };
    assert_eq!(times(1), [0, 10, 20, 30, 40, 50, 60, 70]);
    assert_eq!(times(4), [30, 30, 30, 30, 70, 70, 70, 70]);
    assert_eq!(times(0), [70; 8]);
}

#[test]
fn a_ramp_lengthens_the_runtime() {
    let all = "[a]\nrw=read\nsize=1m\nrate_iops=100\ntime_based\nruntime=50ms\n";
    assert_eq!(times_ms(all).len() + 3, times_ms(&format!("{all}ramp_time=30ms\n")).len());
    let mapped = JobFile::parse("f", "[a]\nsize=4k\ndirect=1\nioengine=mmap\niodepth=8\n").unwrap();
    assert!(!mapped.jobs()[0].direct && mapped.jobs()[0].iodepth == 1);
}
