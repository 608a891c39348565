//! Two processes at one file: what one does must not pull the ground from under the other.

use elevator::Span;
use machine::Next;
use machine::kernel::{Call, Description, Descriptor, Image, Open, Returned};

use crate::bench::{Bench, FIRST, Heard};

fn think(millis: u64) -> Next {
    Next::Think(Span::from_millis(millis))
}

fn machines() -> impl Iterator<Item = Description> {
    Description::names().map(|name| Description::named(name).expect("built in"))
}

fn bench(machine: &Description, image: &Image) -> Bench {
    Bench::new(machine, "deadline-2.6.32", image)
}

/// To the end, with accounts that agree.
fn run(mut bench: Bench, machine: &Description) -> Bench {
    bench.run();
    let kernel = bench.machine.kernel().expect("booted");
    kernel.check().unwrap_or_else(|fault| panic!("{}: {fault}", machine.name));
    bench
}

fn answers(heard: &Heard) -> Vec<Returned> {
    heard.borrow().iter().map(|(_, returned)| returned.clone()).collect()
}

/// The name goes while the opener still reads what leads to the file, or cuts it: the file is the opener's all the same.
#[test]
fn a_file_whose_name_goes_while_it_is_opened_stays_until_it_is_closed() {
    for machine in machines() {
        for wait in [0, 5, 15, 30] {
            let mut image = Image::new();
            image.file("/a", 3 << 20);
            let mut bench = bench(&machine, &image);
            let open = Call::Open("/a".into(), Open { truncate: true, ..Open::default() });
            let calls = [open, Call::Write(FIRST, 4096), Call::Fsync(FIRST), Call::Close(FIRST)];
            let heard = bench.calls("opener", calls.into_iter());
            bench.start("remover", [think(wait), Next::Call(Call::Unlink("/a".into()))].into_iter());
            run(bench, &machine);
            let expected =
                [Returned::Opened(Descriptor(0)), Returned::Bytes(4096), Returned::Done, Returned::Done];
            assert_eq!(answers(&heard), expected, "{}, {wait} ms", machine.name);
        }
    }
}
