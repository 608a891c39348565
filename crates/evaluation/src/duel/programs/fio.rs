//! Runs the user's fio job file on the testbed's device.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Recorder;
use crate::duel::outcome::Waits;

/// A job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fio {
    /// Its text, in which file names are replaced by the device.
    pub text: String,
    /// The file to which the text is written for fio.
    pub file: PathBuf,
}

/// Measurements on fio's own clock.
pub(crate) struct Measured {
    pub(crate) runtime_ns: u64,
    pub(crate) waits: Waits,
}

impl Fio {
    /// Number of lines of [`text`](Self::text) before the user's lines.
    pub const LINES_BEFORE: usize = 2;

    /// The user's job on `device`, which replaces all files that the job names.
    pub fn on(job: &str, device: &Path, file: PathBuf) -> Self {
        let without_names = |line| {
            let option = str::split(line, '=').next().unwrap_or_default().trim();
            let names = matches!(option, "filename" | "directory" | "filename_format" | "opendir");
            if names { "" } else { line }
        };
        let lines: Vec<&str> = job.lines().map(without_names).collect();
        Self { text: format!("[global]\nfilename={}\n{}\n", device.display(), lines.join("\n")), file }
    }

    pub(crate) fn run(&self, recorder: &mut Recorder) -> io::Result<Measured> {
        std::fs::write(&self.file, &self.text)?;
        // fio starts its jobs in their own sessions. In a PID namespace they end with fio, and fio ends with this process in every case.
        let output = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--pid", "--kill-child", "fio", "--output-format=json"])
            .arg(&self.file)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        // fio may print messages before the object.
        let text = String::from_utf8_lossy(&output.stdout);
        let object = text.find('{').map_or("", |at| &text[at..]);
        let report: Value = serde_json::from_str(object).map_err(|error| {
            io::Error::other(format!("fio ended with {} and no report: {error}", output.status))
        })?;
        // fio also reports the partial results of a failed job, which are no measurement.
        match failed(&report) {
            Some((name, error)) => {
                let error = io::Error::from_raw_os_error(error);
                Err(io::Error::other(format!("fio's job {name}: {error}")))
            }
            None if output.status.success() => Ok(read(&report, recorder)),
            None => Err(io::Error::other(format!("fio ended with {}", output.status))),
        }
    }
}

/// The first job that failed, and its error number.
fn failed(report: &Value) -> Option<(&str, i32)> {
    let jobs = report["jobs"].as_array().into_iter().flatten();
    let mut errors = jobs.map(|job| {
        let error = job["error"].as_i64().and_then(|error| i32::try_from(error).ok()).unwrap_or(0);
        (job["jobname"].as_str().unwrap_or("?"), error)
    });
    errors.find(|&(_, error)| error != 0)
}

fn read(report: &Value, recorder: &mut Recorder) -> Measured {
    let mut waits = Waits::default();
    let mut sum = 0.0;
    for job in report["jobs"].as_array().into_iter().flatten() {
        for direction in ["read", "write", "trim"] {
            let of = &job[direction];
            let (operations, latency) = (of["total_ios"].as_u64().unwrap_or(0), &of["lat_ns"]);
            recorder.bytes += of["io_bytes"].as_u64().unwrap_or(0);
            recorder.operations += operations;
            waits.count += operations;
            sum += latency["mean"].as_f64().unwrap_or(0.0) * operations as f64;
            let at = |name: &str| of["clat_ns"]["percentile"][name].as_u64().unwrap_or(0);
            waits.p50_ns = waits.p50_ns.max(at("50.000000"));
            waits.p99_ns = waits.p99_ns.max(at("99.000000"));
            waits.max_ns = waits.max_ns.max(latency["max"].as_u64().unwrap_or(0));
        }
    }
    waits.mean_ns = if waits.count == 0 { 0 } else { (sum / waits.count as f64) as u64 };
    Measured { runtime_ns: runtime_ms(report).saturating_mul(1_000_000), waits }
}

/// Time from the start of the first job to the end of the last. Jobs may wait for others (`stonewall`). Versions of fio without
/// `job_start` put waiting jobs into another group, and groups are assumed to run one after the other.
fn runtime_ms(report: &Value) -> u64 {
    let jobs = || report["jobs"].as_array().into_iter().flatten();
    let of = |job: &Value, name: &str| job[name].as_u64();
    let runtime = |job: &Value| of(job, "job_runtime").unwrap_or(0);
    let starts: Option<Vec<u64>> = jobs().map(|job| of(job, "job_start")).collect();
    if let Some(starts) = starts {
        let ends = starts.iter().zip(jobs()).map(|(start, job)| start.saturating_add(runtime(job)));
        return ends.max().unwrap_or(0) - starts.iter().copied().min().unwrap_or(0);
    }
    let mut groups = BTreeMap::<u64, u64>::new();
    for job in jobs() {
        let group = groups.entry(of(job, "groupid").unwrap_or(0)).or_default();
        *group = runtime(job).max(*group);
    }
    groups.into_values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_job_names_it_gets_our_device() {
        let job = "[global]\nrw=read\n[a]\nfilename = /dev/sda\ndirectory=/srv\nbs=4k\n";
        let text = Fio::on(job, Path::new("/dev/loop7"), PathBuf::new()).text;
        assert!(text.contains("filename=/dev/loop7") && !text.contains("/dev/sda") && !text.contains("/srv"));
        assert!(text.contains("rw=read") && text.contains("bs=4k"));
    }

    #[test]
    fn jobs_one_after_the_other_take_as_long_as_all_of_them() {
        let job = |group: u64, start: Option<u64>, runtime: u64| {
            let mut job = serde_json::json!({ "groupid": group, "job_runtime": runtime });
            if let Some(start) = start {
                job["job_start"] = start.into();
            }
            job
        };
        let ran = |jobs: &[Value]| runtime_ms(&serde_json::json!({ "jobs": jobs }));
        let at = 1_700_000_000_000;
        assert_eq!(ran(&[job(0, Some(at), 4000), job(1, Some(at + 4010), 5000)]), 9010);
        assert_eq!(ran(&[job(0, Some(at), 4000), job(1, Some(at), 5000)]), 5000);
        assert_eq!(ran(&[job(0, None, 4000), job(1, None, 5000)]), 9000);
        assert_eq!(ran(&[job(0, None, 4000), job(0, None, 5000)]), 5000);
        assert_eq!(ran(&[]), 0);
    }

    #[test]
    fn the_first_failed_job_is_reported() {
        let report = serde_json::json!({
            "jobs": [{ "jobname": "one", "error": 0 }, { "jobname": "other", "error": 5 }]
        });
        assert_eq!(failed(&report), Some(("other", 5)));
        assert_eq!(failed(&serde_json::json!({ "jobs": [{ "jobname": "one", "error": 0 }] })), None);
    }
}
