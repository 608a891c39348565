//! The HTML report of `compare`: its parts, its size, and, where Chromium is installed, the page in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/two-greps-and-a-copy.ftrace.gz");

/// More than ten thousand requests under each scheduler.
const SIZE_MAX: usize = 2_000_000;

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dwell-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn report(folder: &Folder) -> String {
    report_of(folder, &[RECORDING])
}

fn report_of(folder: &Folder, compare: &[&str]) -> String {
    let path = folder.0.join("report.html");
    let output = Command::new(env!("CARGO_BIN_EXE_dwell"))
        .arg("compare")
        .args(compare)
        .args(["-q", "--report"])
        .arg(&path)
        .env_remove("DWELL_DRIVE")
        .env("DWELL_CONFIG", "")
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(path).expect("the report")
}

#[test]
fn a_report_of_ten_thousand_requests_has_all_charts_and_is_small() {
    let folder = Folder::new("parts");
    let page = report(&folder);
    assert!(page.len() < SIZE_MAX, "{} bytes", page.len());
    for part in [
        "prefers-color-scheme:dark",
        "@media print",
        "@media(max-width:40rem)",
        "name=\"viewport\"",
        "request size, KiB",
        "latency of reads, ms",
        "throughput",
        "commands in the drive",
        "median latency",
        "99th percentile",
        "seeks/s",
        "position, 10^9 bytes",
        "image/svg+xml",
        "text/csv",
        "Ranked by throughput.",
    ] {
        assert!(page.contains(part), "'{part}' is not in the report");
    }
    assert_eq!(page.matches("<section class=choice>").count(), 7, "a section for each scheduler");
    // Offline: nothing is loaded.
    for loaded in ["src=\"http", "href=\"http", "@import", "url("] {
        assert!(!page.contains(loaded), "'{loaded}'");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

/// Regression: 2.1 and 2.6 MB.
#[test]
fn a_report_of_all_schedulers_and_hundreds_of_processes_is_small() {
    let folder = Folder::new("all");
    let job = folder.0.join("many.fio");
    for (processes, requests) in [(50, 200), (200, 50)] {
        let text = format!(
            "[p]\nrw=randrw\nbssplit=512/20:4k/30:64k/30:1m/20\nsize=1g\nnumber_ios={requests}\nnumjobs={processes}\ndirect=1\n"
        );
        fs::write(&job, text).expect("a job file");
        let page = report_of(&folder, &[&job.to_string_lossy(), "--all"]);
        assert!(page.len() < SIZE_MAX, "{processes} processes: {} bytes", page.len());
        assert!(page.contains("shows one in 2 requests of each process"));
        assert_eq!(page.contains("more</p>"), processes == 200, "a rest of the rows");
    }
}

/// Chromium with a profile of its own.
fn chromium(folder: &Path, more: &[&str]) -> Option<Output> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })?;
    let mut child = Command::new(found)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(more)
        .stdout(fs::File::create(folder.join("out")).ok()?)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    let status = loop {
        if let Ok(Some(status)) = child.try_wait() {
            break status;
        }
        if began.elapsed() > Duration::from_secs(180) {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let stdout = fs::read(folder.join("out")).unwrap_or_default();
    Some(Output { status, stdout, stderr: Vec::new() })
}

#[test]
fn a_browser_shows_two_schedulers_on_a_phone_without_scrolling_sideways() {
    let folder = Folder::new("browser");
    let page = report(&folder);
    // The page's own state goes into the title.
    let probe = "<script>document.title='PROBE '+JSON.stringify({sections:[...document.querySelectorAll('section.choice')]\
                 .filter(s=>!s.hidden).length,saves:document.querySelectorAll('.save button').length,\
                 figures:document.querySelectorAll('figure').length,width:document.documentElement.scrollWidth,\
                 window:innerWidth,legends:document.querySelectorAll('svg.keyed + .legend').length,\
                 drawn:document.querySelectorAll('svg.chart').length,charts:[...document.querySelectorAll('section.choice:not([hidden]) svg.chart')]\
                 .every(c=>c.getBoundingClientRect().height>50)})</script></body>";
    let path = folder.0.join("probe.html");
    fs::write(&path, page.replace("</body>", probe)).expect("a page");
    let url = format!("file://{}", path.display());
    let Some(output) = chromium(&folder.0, &["--window-size=500,900", "--dump-dom", &url]) else {
        return eprintln!("SKIPPED: Chromium is not installed, or did not end in three minutes");
    };
    let dom = String::from_utf8_lossy(&output.stdout);
    let Some(found) = dom.split("<title>PROBE ").nth(1).and_then(|rest| rest.split("</title>").next()) else {
        return eprintln!("SKIPPED: Chromium printed no page ({}, {} bytes)", output.status, dom.len());
    };
    let found: serde_json::Value =
        serde_json::from_str(found).unwrap_or_else(|error| panic!("{error}: {found}"));
    let number = |what: &str| found[what].as_u64().unwrap_or_else(|| panic!("{what}: {found}"));
    assert_eq!(number("sections"), 2, "{found}");
    assert_eq!(number("saves"), number("figures"), "every figure can be saved: {found}");
    assert!(number("width") <= number("window"), "the page is wider than the window: {found}");
    assert_eq!(found["charts"], true, "{found}");
    // The names in an SVG would overlap in its larger text on a phone.
    assert_eq!(number("legends"), number("drawn"), "a legend that wraps below each chart: {found}");
}
