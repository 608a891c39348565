//! `dwell trace convert` to Parquet, and `dwell trace split`.

use std::path::Path;

use elevator::text::counted;
use evaluation::input::{Reading, open_recording, options};
use traces::Format;

use crate::error::Error;

pub(super) fn convert(from: &Path, to: &Path, reading: &Reading) -> Result<(), Error> {
    if to == Path::new("-") {
        let problem = "a Parquet file is not written to standard output; name a file";
        return Err(Error::Usage(problem.to_owned()));
    }
    crate::output_file::check_writable(to)?;
    let mut recording = open_recording(from, &options(reading, None)?)?;
    let written = study::recordings::convert(&mut recording, to)?;
    super::report(from, Format::Parquet, written, &recording)
}

pub(super) fn split(from: &Path, folder: &Path, reading: &Reading) -> Result<(), Error> {
    if !study::HAS_PARQUET {
        return Err(Error::Usage(study::NOT_BUILT.to_owned()));
    }
    // All devices, unless one is named.
    let device = reading.device.clone().or_else(|| Some("all".to_owned()));
    let reading = Reading { device, ..reading.clone() };
    let mut recording = open_recording(from, &options(&reading, None)?)?.ordered_by_device();
    let (written, files) = study::recordings::split(&mut recording, folder)?;
    say!("{}: {}", folder.display(), counted(files as u64, "file"));
    super::report(from, Format::Parquet, written, &recording)
}
