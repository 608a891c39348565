//! Latencies computed by hand, rates limited by the interface and the flash, and the semantics of flushes.

use elevator::Random;

use super::*;

const US: u64 = 1000;

/// Round numbers: all transfers at 1 GB/s, 10 us controller time and 5 us latency per command, 50 us read, 500 us program, 3 ms erase.
fn easy() -> SsdParameters {
    SsdParameters {
        name: "easy".to_owned(),
        capacity_sectors: 1 << 22,
        depth: 256,
        host: HostParameters {
            command_ns: 10 * US,
            latency_ns: 5 * US,
            megabytes_per_second: 1000,
            full_duplex: true,
        },
        flash: FlashParameters {
            channels: 2,
            dies_per_channel: 2,
            planes: 2,
            page_bytes: 4096,
            pages_per_block: 64,
            page_read_ns: 50 * US,
            page_program_ns: 500 * US,
            block_erase_ns: 3000 * US,
            channel_megabytes_per_second: 1000,
            ..Default::default()
        },
        write_buffer: WriteBufferParameters { bytes: 1 << 20, ..Default::default() },
        ..Default::default()
    }
}

fn command(tag: u32, op: Op, page: u64, pages: u32) -> Command {
    Command { tag: Tag(tag), op, start: Sector(page * 8), sectors: Sectors(pages * 8), fua: false }
}

fn fua(command: Command) -> Command {
    Command { fua: true, ..command }
}

/// Runs until the drive has no further events.
fn drain(drive: &mut Ssd) -> Vec<Completion> {
    let mut all = Vec::new();
    while let Some(at) = drive.next_event() {
        all.extend(drive.poll(at));
    }
    all
}

/// Nanoseconds from `from` until the only command completes.
fn alone(drive: &mut Ssd, from: u64, command: Command) -> u64 {
    drive.submit(Time::from_nanos(from), command);
    loop {
        let at = drive.next_event().expect("a completion");
        if let Some(done) = drive.poll(at) {
            assert_eq!((done.tag, done.outcome), (command.tag, Outcome::Done));
            return done.at.as_nanos() - from;
        }
    }
}

/// Keeps `depth` commands in the drive; the time when the last of `count` completed.
fn closed_loop(drive: &mut Ssd, depth: u32, count: u64, mut next: impl FnMut(u64, u32) -> Command) -> Time {
    let (mut sent, mut last) = (0, Time::ZERO);
    while sent < u64::from(depth) {
        drive.submit(Time::ZERO, next(sent, sent as u32));
        sent += 1;
    }
    let mut done = 0;
    while done < count {
        let at = drive.next_event().expect("commands are in the drive");
        while let Some(completion) = drive.poll(at) {
            assert!(completion.at <= at && completion.at >= last, "in order of time");
            last = completion.at;
            done += 1;
            if sent < count {
                drive.submit(at, next(sent, completion.tag.0));
                sent += 1;
            }
        }
    }
    last
}

fn easy_drive() -> Ssd {
    Ssd::new(&easy()).unwrap()
}

#[test]
fn a_read_from_an_idle_drive_takes_the_sum_of_its_stages() {
    let mut drive = easy_drive();
    // Command and latency, flash read, channel, interface.
    assert_eq!(alone(&mut drive, 0, command(0, Op::Read, 0, 1)), 15_000 + 50_000 + 4096 + 4096);
    // Four pages on four dies are read at the same time; each channel carries two, and the interface all four.
    let four = alone(&mut drive, 1_000_000, command(0, Op::Read, 8, 4));
    assert_eq!(four, 15_000 + 50_000 + 4096 + 4 * 4096);
    // Two pages of one die are read in sequence; the transfer of the first overlaps with the read of the second.
    drive.submit(Time::from_nanos(2_000_000), command(0, Op::Read, 16, 1));
    drive.submit(Time::from_nanos(2_000_000), command(1, Op::Read, 20, 1));
    let second = drain(&mut drive)[1].at.as_nanos() - 2_000_000;
    assert_eq!(second, 15_000 + 2 * 50_000 + 2 * 4096);
}

#[test]
fn a_page_in_the_register_is_not_read_again() {
    let mut p = easy();
    p.flash.page_bytes = 16_384;
    let mut drive = Ssd::new(&p).unwrap();
    let first = alone(&mut drive, 0, command(0, Op::Read, 0, 1));
    assert_eq!(first - alone(&mut drive, 1_000_000, command(0, Op::Read, 1, 1)), 50_000);
}

/// Die 0 begins a program after 15 us, the transfer of two pages over the interface, and their transfer over the channel.
const PROGRAM_BEGINS: u64 = 15_000 + 8192 + 8192;

#[test]
fn a_read_behind_a_program_on_its_die_waits_and_others_do_not() {
    let mut drive = easy_drive();
    drive.submit(Time::ZERO, command(0, Op::Write, 100, 2));
    let at = 100_000;
    drive.submit(Time::from_nanos(at), command(1, Op::Read, 0, 1));
    drive.submit(Time::from_nanos(at), command(2, Op::Read, 1, 1));
    let done = drain(&mut drive);
    let end = |tag| done.iter().find(|c| c.tag == Tag(tag)).unwrap().at.as_nanos();
    assert_eq!(end(1), PROGRAM_BEGINS + 500_000 + 50_000 + 2 * 4096, "behind the program");
    assert_eq!(end(2), at + 25_000 + 50_000 + 2 * 4096, "on another die");
}

#[test]
fn a_suspended_program_lets_reads_pass_and_ends_later() {
    let mut p = easy();
    p.flash.suspends_per_operation = 1;
    let mut drive = Ssd::new(&p).unwrap();
    drive.submit(Time::ZERO, command(0, Op::Write, 100, 2));
    let at = 100_000;
    assert_eq!(alone_among(&mut drive, at, command(1, Op::Read, 0, 1)), 15_000 + 20_000 + 50_000 + 2 * 4096);
    let end = PROGRAM_BEGINS + 500_000 + 20_000 + 50_000 + 20_000;
    // The operation has no suspension left for the second read.
    assert_eq!(
        alone_among(&mut drive, 300_000, command(1, Op::Read, 4, 1)),
        end - 300_000 + 50_000 + 2 * 4096
    );
}

/// As `alone`, but ignores other commands that complete earlier.
fn alone_among(drive: &mut Ssd, from: u64, command: Command) -> u64 {
    drive.submit(Time::from_nanos(from), command);
    loop {
        let at = drive.next_event().expect("a completion");
        if let Some(done) = drive.poll(at).filter(|done| done.tag == command.tag) {
            return done.at.as_nanos() - from;
        }
    }
}

#[test]
fn reads_do_not_starve_programs() {
    let mut p = easy();
    p.flash.reads_before_program = 4;
    let mut drive = Ssd::new(&p).unwrap();
    for tag in 0..64 {
        drive.submit(Time::ZERO, command(tag, Op::Read, u64::from(tag) * 4, 1));
    }
    drive.submit(Time::ZERO, fua(command(64, Op::Write, 4, 1)));
    let done = drain(&mut drive);
    let place = done.iter().position(|c| c.tag == Tag(64)).unwrap();
    assert!(place < 64, "the write came {place}th");
}

#[test]
fn bandwidth_is_bounded_by_interface_and_by_flash() {
    let rate = |p: &SsdParameters| {
        let mut drive = Ssd::new(p).unwrap();
        let end = closed_loop(&mut drive, 32, 2000, |i, tag| command(tag, Op::Read, i * 32, 32));
        2000.0 * 131_072.0 / end.as_nanos() as f64 * 1000.0
    };
    let mut p = easy();
    p.flash.page_bytes = 16_384;
    p.flash.page_read_ns = 10 * US;
    let interface = rate(&p);
    assert!((980.0..=1000.0).contains(&interface), "{interface} MB/s of 1000");
    p.host.megabytes_per_second = 10_000;
    p.flash.channel_megabytes_per_second = 700;
    let channels = rate(&p);
    assert!((1350.0..=1400.0).contains(&channels), "{channels} MB/s of 2 x 700");
    p.flash.page_read_ns = 100 * US;
    let dies = rate(&p);
    assert!((630.0..=656.0).contains(&dies), "{dies} MB/s of 4 x 16384 B / 100 us");
}

#[test]
fn commands_per_second_are_bounded_by_the_controller() {
    let mut drive = easy_drive();
    drive.p.host.command_ns = 20 * US;
    let mut random = Random::new(3);
    let end =
        closed_loop(&mut drive, 128, 5000, |_, tag| command(tag, Op::Read, random.next() % (1 << 19), 1));
    let rate = 5000.0 * 1e9 / end.as_nanos() as f64;
    assert!((45_000.0..=50_000.0).contains(&rate), "{rate} a second");
}

#[test]
fn a_write_completes_in_the_buffer_and_reads_find_it_there() {
    let mut drive = easy_drive();
    assert_eq!(alone(&mut drive, 0, command(0, Op::Write, 3, 1)), 15_000 + 4096);
    drive.submit(Time::from_nanos(50_000), command(1, Op::Read, 3, 1));
    let done = drain(&mut drive);
    assert!(done[0].service.from_buffer);
    assert_eq!(done[0].at.as_nanos(), 50_000 + 15_000 + 4096);
}

#[test]
fn a_flush_waits_only_for_earlier_writes() {
    let mut drive = easy_drive();
    let nothing = alone(&mut drive, 0, Command { sectors: Sectors::ZERO, ..command(0, Op::Flush, 0, 0) });
    assert_eq!(nothing, 15_000);
    alone(&mut drive, 1_000_000, command(0, Op::Write, 3, 1));
    let flush = alone(&mut drive, 2_000_000, command(0, Op::Flush, 0, 0));
    // A half-empty program: the channel transfers the data of both planes, then the die programs them.
    assert_eq!(flush, 15_000 + 8192 + 500_000);
    assert_eq!(alone(&mut drive, 3_000_000, command(0, Op::Flush, 0, 0)), 15_000);
}

#[test]
fn fua_and_writes_without_cache_wait_for_the_flash_unless_power_loss_protected() {
    let on_flash = 15_000 + 4096 + 8192 + 500_000;
    assert_eq!(alone(&mut easy_drive(), 0, fua(command(0, Op::Write, 3, 1))), on_flash);
    let mut p = easy();
    p.write_buffer.write_cache = false;
    assert_eq!(alone(&mut Ssd::new(&p).unwrap(), 0, command(0, Op::Write, 3, 1)), on_flash);
    p.write_buffer.power_loss_protection = true;
    assert_eq!(alone(&mut Ssd::new(&p).unwrap(), 0, command(0, Op::Write, 3, 1)), 15_000 + 4096);
}

#[test]
fn a_full_buffer_limits_writes_to_the_rate_of_the_flash() {
    let mut p = easy();
    p.translation.filled_percent = 0;
    let mut drive = Ssd::new(&p).unwrap();
    let end = closed_loop(&mut drive, 32, 4000, |i, tag| command(tag, Op::Write, i * 8, 8));
    let rate = 4000.0 * 32_768.0 / end.as_nanos() as f64 * 1000.0;
    // Four dies of 8192 bytes in 500 us and 8.2 us of transfer, and a megabyte that is still in the buffer.
    let flash = 4.0 * 8192.0 / 508.2 * 4000.0 * 32_768.0 / (4000.0 * 32_768.0 - (1 << 20) as f64);
    assert!((rate / flash - 1.0).abs() < 0.03, "{rate} MB/s, not {flash}");
}

#[test]
fn sustained_random_writes_slow_down_by_the_write_amplification() {
    let mut random = Random::new(5);
    let mut drive = easy_drive();
    let pages = drive.capacity().0 / 8;
    let mut phase = |drive: &mut Ssd, count: u64| {
        let before = drive.written();
        // The drive is idle after the previous phase; times continue from its end.
        let start = drive.controller_free;
        let mut sent = 0;
        let mut free: Vec<u32> = (0..64).collect();
        let mut now = start;
        let mut left = count;
        while left > 0 {
            while sent < count && !free.is_empty() {
                let tag = free.pop().unwrap();
                drive.submit(now, command(tag, Op::Write, random.next() % pages, 1));
                sent += 1;
            }
            now = now.max(drive.next_event().unwrap());
            while let Some(done) = drive.poll(now) {
                free.push(done.tag.0);
                left -= 1;
            }
        }
        let host = drive.written().host_pages - before.host_pages;
        let copied = drive.written().copied_pages - before.copied_pages;
        (count as f64 * 1e9 / now.since(start).as_nanos() as f64, 1.0 + copied as f64 / host as f64)
    };
    let (fresh, none) = phase(&mut drive, pages / 100);
    phase(&mut drive, 4 * pages);
    let (steady, amplification) = phase(&mut drive, pages);
    assert!(none < 1.01, "the spare flash is used first");
    assert!((5.0..10.0).contains(&amplification), "{amplification} at 7%");
    let slowdown = fresh / steady;
    let expected = amplification..amplification * 1.6;
    assert!(expected.contains(&slowdown), "{slowdown} times slower at {amplification}: copies are read too");
}

#[test]
fn a_command_beyond_the_end_fails() {
    let mut drive = easy_drive();
    drive.submit(Time::ZERO, command(0, Op::Read, (1 << 19) - 1, 2));
    assert_eq!(drain(&mut drive)[0].outcome, Outcome::Failed);
}

#[test]
fn the_same_calls_return_the_same_results() {
    let run = || {
        let mut random = Random::new(9);
        let mut drive = easy_drive();
        closed_loop(&mut drive, 200, 30_000, |_, tag| {
            let op = if random.next().is_multiple_of(3) { Op::Write } else { Op::Read };
            let pages = 1 + random.next() % 16;
            let c = command(tag, op, random.next() % ((1 << 19) - 16), pages as u32);
            Command { fua: random.next().is_multiple_of(50), ..c }
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn errors_of_impossible_parameters_name_the_field() {
    let mut p = easy();
    p.flash.planes = 9;
    assert!(Ssd::new(&p).unwrap_err().to_string().starts_with("flash.planes must lie between 1 and 8"));
    p = easy();
    p.flash.page_bytes = 5000;
    assert_eq!(Ssd::new(&p).unwrap_err(), SsdError::PageBytes(5000));
}

/// Each flush programs half-empty pages, and so uses twice the flash that the data needs.
#[test]
fn empty_parts_of_flushed_programs_are_erased_too() {
    let erases = |flush: bool| {
        let mut drive = easy_drive();
        for page in 0..100_000 {
            let now = drive.next_event().unwrap_or(drive.controller_free);
            drive.submit(now, command(0, Op::Write, page, 1));
            drain(&mut drive);
            if flush {
                drive.submit(drive.controller_free, command(0, Op::Flush, 0, 0));
                drain(&mut drive);
            }
        }
        drive.written().erases
    };
    let (together, apart) = (erases(false), erases(true));
    assert!(
        apart > together * 19 / 10 && together > 100,
        "{apart} blocks erased, {together} without flushes"
    );
}

#[test]
fn a_page_that_is_discarded_in_the_buffer_never_reaches_the_flash() {
    let mut drive = easy_drive();
    for (tag, op) in [(0, Op::Write), (1, Op::Discard), (2, Op::Flush)] {
        drive.submit(Time::from_nanos(u64::from(tag) * 100_000), command(tag, op, 7, u32::from(tag < 2)));
    }
    assert_eq!(drain(&mut drive).len(), 3);
    assert_eq!(drive.written().host_pages, 0);
}
