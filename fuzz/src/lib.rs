//! Functions that several targets use.

use std::io::{self, Cursor};

use elevator::Op;
use traces::write::Writer;
use traces::{DeviceChoice, Format, Info, Options, StartEvent, TimeUnit};

/// Reads `data` as `format`, or as the detected format, with options selected by the last byte. Checks the guarantees about
/// records, summarizes them and writes them.
pub fn read(format: Option<Format>, data: &[u8]) {
    let Some((&choice, content)) = data.split_last() else { return };
    let options = options(format, choice);
    let Ok(mut recording) = traces::open("fuzz", Box::new(Cursor::new(content.to_vec())), &options) else {
        return;
    };
    let mut gatherer = Info::gatherer();
    let mut records = Vec::new();
    let mut latest = elevator::Time::ZERO;
    for record in recording.by_ref() {
        let Ok(record) = record else { break };
        assert!(record.at >= latest && record.completed.is_none_or(|completed| completed >= record.at));
        assert!(record.op == Op::Flush || record.bytes > 0);
        let end = record.offset.checked_add(record.bytes).expect("an end below 2^64");
        assert!(options.capacity.is_none_or(|capacity| end <= capacity));
        latest = record.at;
        gatherer.add(&record);
        records.push(record);
    }
    assert!(recording.next().is_none());
    let _ = (recording.interpretation().to_string(), recording.interpretation().doubt());
    let _ = recording.skips().to_string();
    let _ = gatherer.finish(&recording);
    for format in Format::ALL.iter().filter(|format| format.holds().is_some()) {
        let mut writer = Writer::new(*format, io::sink(), recording.devices(), "fuzz").expect("a sink");
        records.iter().for_each(|record| writer.write(record, None).expect("a sink"));
        writer.finish().expect("a sink");
    }
}

/// Options selected by the last byte. Corpus files end with a newline or a zero, which select the defaults with all devices.
fn options(format: Option<Format>, choice: u8) -> Options {
    let usual = Options { format, device: DeviceChoice::All, ..Options::default() };
    match choice {
        b'0'..=b'4' => Options { unit: Some(TimeUnit::ALL[usize::from(choice - b'0')]), ..usual },
        b'a'..=b'd' => Options { event: Some(StartEvent::ALL[usize::from(choice - b'a')]), ..usual },
        b'e' => Options { capacity: Some(1 << 30), ..usual },
        b'f' => Options { strict: true, ..usual },
        b'g' => Options { device: DeviceChoice::Single, ..usual },
        b'h' => Options { block_bytes: Some(u32::MAX), ..usual },
        _ => usual,
    }
}
