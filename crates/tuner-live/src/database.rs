//! Database: what the tuner has learned, kept across restarts.
//!
//! # Layout
//! A directory with one JSON file for each drive and metric, because values of different metrics cannot be compared. A drive is named by its
//! model and size, so that its file can be copied to another machine with the same kind of drive. A file has its old or its new content
//! after a crash: it is written under another name, flushed and renamed.
//!
//! # Why not an embedded database
//! Only the process that has claimed a device writes its file, and it reads the file once, at its start. A file of kinds of load, the
//! default, is some 100 KB long. With `--decider ioanalyzer` it may hold 6,000 clusters of 1,000 jumps, up to 70 MB, of which every window
//! changes one or two; [`Database::save`] returns the length, and the caller saves large files less often. SQLite would write only the
//! changed rows, but costs every build 68 s. Tables with their own locking (redb) allow one process at a time, and several tuners share a
//! database.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};
use tuner::{Metric, State};

use crate::error::Error;
use crate::files;
use crate::live_tuner::in_words;

/// The value of `format` in each file.
const FORMAT: &str = "dwell tuner";
/// The version that this code writes, and the only one that it reads.
const VERSION: u32 = 1;
/// Twice what 6,000 clusters of 1,000 random jumps take.
const LENGTH_MAX: u64 = 150_000_000;

/// The directory.
#[derive(Debug)]
pub struct Database {
    directory: PathBuf,
}

/// What identifies a file as one of this program.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// The content of a file; `S` is the state or a reference to it.
#[derive(Serialize, Deserialize)]
struct Content<S> {
    format: String,
    version: u32,
    drive: String,
    /// In seconds since 1970.
    saved: i64,
    state: S,
}

/// What `patterns list` shows about a drive and a metric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Drive {
    pub name: String,
    /// The metric that was improved.
    #[serde(serialize_with = "serialize_metric")]
    pub metric: Metric,
    /// Known kinds of load.
    pub kinds: u64,
    /// Windows of these kinds.
    pub windows: u64,
    /// Stored clusters.
    pub clusters: u64,
    /// Windows that hit one of them.
    pub hits: u64,
    /// When it was last saved, in seconds since 1970.
    pub saved: i64,
}

fn serialize_metric<S: Serializer>(metric: &Metric, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&in_words(*metric))
}

impl Database {
    /// Opens the directory to write to it, and creates it if it is missing.
    ///
    /// # Errors
    /// It is no directory, or cannot be created.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        match fs::create_dir_all(directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(not_a_directory(directory)),
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(not_a_directory(directory)),
            Err(error) => Err(Error::written(directory, &error)),
            Ok(()) => {
                files::remove_unfinished(directory);
                Ok(Self { directory: directory.to_owned() })
            }
        }
    }

    /// Opens the directory to read from it; `None` if it is missing or holds nothing.
    ///
    /// # Errors
    /// It is no directory, or cannot be read.
    pub fn open_existing(directory: &Path) -> Result<Option<Self>, Error> {
        let database = Self { directory: directory.to_owned() };
        Ok((!database.files()?.is_empty()).then_some(database))
    }

    /// Its files, sorted by name.
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(not_a_directory(&self.directory));
            }
            Err(error) => return Err(Error::file(&self.directory, error)),
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        Ok(files)
    }

    fn file(&self, drive: &str, metric: Metric) -> PathBuf {
        self.directory.join(file_name(drive, &in_words(metric)))
    }

    /// Every drive and metric in it, sorted by drive.
    ///
    /// # Errors
    /// A file is damaged or of another version.
    pub fn drives(&self) -> Result<Vec<Drive>, Error> {
        let mut drives = Vec::new();
        for path in self.files()? {
            let Some(Content { drive: name, saved, state, .. }) = read(&path)? else { continue };
            let loads = state.kinds.loads().filter_map(|kind| state.kinds.load(kind));
            drives.push(Drive {
                name,
                metric: state.metric,
                kinds: state.kinds.count() as u64,
                windows: loads.map(|(_, windows)| windows).sum(),
                clusters: state.clusters.len() as u64,
                hits: state.clusters.iter().map(|cluster| cluster.hits).sum(),
                saved,
            });
        }
        drives.sort_by_cached_key(|drive| (drive.name.clone(), in_words(drive.metric)));
        Ok(drives)
    }

    /// What was learned about a drive by a metric, if anything.
    ///
    /// # Errors
    /// The file is damaged or of another version.
    pub fn load(&self, drive: &str, metric: Metric) -> Result<Option<State>, Error> {
        let content = read(&self.file(drive, metric))?;
        let fits = |content: &Content<State>| content.drive == drive && content.state.metric == metric;
        Ok(content.filter(fits).map(|content| content.state))
    }

    /// Replaces what is stored about a drive by the state's metric; returns the length of the file. If two drives in one machine have the
    /// same name, the file has what was saved last.
    ///
    /// # Errors
    /// The file cannot be written; it then keeps its old content.
    pub fn save(&self, drive: &str, state: &State, now: i64) -> Result<u64, Error> {
        let (format, drive) = (FORMAT.to_owned(), drive.to_owned());
        let path = self.file(&drive, state.metric);
        let content = Content { format, version: VERSION, drive, saved: now, state };
        let text = serde_json::to_vec(&content).map_err(|error| Error::file(&path, error.into()))?;
        files::replace(&path, &text, true).map_err(|error| Error::written(&path, &error))?;
        Ok(text.len() as u64)
    }

    /// Removes what was learned about a drive by a metric; returns whether there was anything.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget(&self, drive: &str, metric: Metric) -> Result<bool, Error> {
        let path = self.file(drive, metric);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::written(&path, &error)),
        }
    }
}

/// Reads one file of a database: the drive's name and what was learned about it.
///
/// # Errors
/// It is missing, damaged, of another version, or no file of a database.
pub fn read_file(path: &Path) -> Result<(String, State), Error> {
    let missing = || Error::file(path, ErrorKind::NotFound.into());
    let content = read(path)?.ok_or_else(missing)?;
    Ok((content.drive, content.state))
}

fn read(path: &Path) -> Result<Option<Content<State>>, Error> {
    let problem = |problem: String| Error::Database { path: path.to_owned(), problem };
    let bytes = match files::read(path, LENGTH_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(path, error)),
    };
    let damaged = |error: serde_json::Error| match io::Error::from(error) {
        error if error.kind() == ErrorKind::InvalidData || error.kind() == ErrorKind::UnexpectedEof => {
            problem(format!("is damaged ({error}); move it away, and the tuner learns that drive anew"))
        }
        error => Error::file(path, error),
    };
    match serde_json::from_slice(&bytes).map_err(damaged)? {
        Header { format, version: VERSION } if format == FORMAT => {}
        Header { format, version } if format == FORMAT => {
            return Err(problem(format!(
                "has version {version}, and this program reads version {VERSION}; use the dwell that wrote it, or move it away"
            )));
        }
        Header { .. } => return Err(problem("is no file of the tuner's database".to_owned())),
    }
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

fn not_a_directory(path: &Path) -> Error {
    let problem = "is not a directory; name a directory with --database".to_owned();
    Error::Database { path: path.to_owned(), problem }
}

/// A readable beginning of the drive's name, a hash of all of it, and the metric.
fn file_name(drive: &str, metric: &str) -> String {
    let plain = |text: &str| -> String {
        let valid = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        text.chars().take(60).map(valid).collect()
    };
    // FNV-1a: the names of files must not change with the standard library's hash.
    let hash = drive.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}-{hash:016x}.{}.json", plain(drive), plain(metric))
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use tuner::{
        Access, Analyser, DeciderName, Metric, Observed, Parameters, Performance, Random, SchedulerId, Window,
    };

    use super::*;
    use crate::testing::Tree;

    /// Metrics whose names are of each form.
    const METRICS: [Metric; 3] = [
        Metric::Bandwidth,
        Metric::Latency(tuner::LatencyStatistic::P99, tuner::LatencyClass::Reads),
        Metric::External(tuner::Better::Lower),
    ];

    fn analyser(metric: Metric) -> Analyser {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        let analyser = Analyser::new(names, metric, Parameters::default(), Random::new(7)).unwrap();
        analyser.with_decider(DeciderName::IoAnalyzer)
    }

    /// What is known after so many windows of three patterns.
    fn learned(metric: Metric, windows: u64) -> State {
        let mut analyser = analyser(metric);
        (0..windows).for_each(|n| step(&mut analyser, n));
        analyser.state()
    }

    fn step(analyser: &mut Analyser, n: u64) {
        let start = Time::ZERO + Span::from_secs(5 * n);
        let stride = [8, 1 << 20, 1 << 24][(n % 3) as usize];
        let access = |i: u64| Access {
            time: start + Span::from_millis(i * 10),
            position: Sector(i * stride),
            op: Op::Read,
            size: Sectors(8),
        };
        let window = Window { start, length: Span::from_secs(5), accesses: (0..400).map(access).collect() };
        let performance = Performance { bandwidth: 1e6 / (n % 7 + 1) as f64, ..Performance::default() };
        let observed = Observed { scheduler: Some(SchedulerId((n % 2) as usize)), performance };
        analyser.window(&window, &observed);
    }

    #[test]
    fn the_loaded_state_equals_the_saved_one() {
        let tree = Tree::new("database");
        let path = tree.directory().join("tuner");
        assert!(Database::open_existing(&path).unwrap().is_none());
        let (database, mut analyser) = (Database::open(&path).unwrap(), analyser(Metric::Bandwidth));
        assert!(Database::open_existing(&path).unwrap().is_none(), "it holds nothing yet");
        for n in 0..20 {
            step(&mut analyser, n);
            database.save("disk", &analyser.state(), 42).unwrap();
        }
        let database = Database::open_existing(&path).unwrap().unwrap();
        assert_eq!(database.load("disk", Metric::Bandwidth).unwrap(), Some(analyser.state()));
        assert_eq!(database.load("another", Metric::Bandwidth).unwrap(), None);
        let drives = database.drives().unwrap();
        assert_eq!((drives[0].name.as_str(), drives[0].saved, drives[0].hits), ("disk", 42, 20));
        let file = database.files().unwrap().remove(0);
        assert_eq!(read_file(&file).unwrap(), ("disk".to_owned(), analyser.state()), "for --transfer");
    }

    #[test]
    fn each_metric_has_a_separate_file() {
        let tree = Tree::new("database-metrics");
        let database = Database::open(&tree.directory()).unwrap();
        let states = METRICS.map(|metric| learned(metric, 9));
        for state in &states {
            assert_eq!(database.load("disk", state.metric).unwrap(), None);
            database.save("disk", state, 0).unwrap();
        }
        assert_eq!(METRICS.map(|metric| database.load("disk", metric).unwrap()), states.map(Some));
        let known: Vec<_> =
            database.drives().unwrap().into_iter().map(|drive| (drive.metric, drive.hits)).collect();
        assert!(known.len() == 3 && METRICS.iter().all(|&metric| known.contains(&(metric, 9))), "{known:?}");
        assert!(database.forget("disk", Metric::Bandwidth).unwrap());
        assert!(!database.forget("disk", Metric::Bandwidth).unwrap());
        assert_eq!(database.load("disk", Metric::Bandwidth).unwrap(), None);
        assert!(METRICS[1..].iter().all(|&metric| database.load("disk", metric).unwrap().is_some()));
    }

    #[test]
    fn long_names_that_begin_alike_have_different_files() {
        let tree = Tree::new("database-names");
        let database = Database::open(&tree.directory()).unwrap();
        let [one, other] = ["x", "y"].map(|end| format!("{}/../{end}", "raid5 of 2 x WD/".repeat(30)));
        database.save(&one, &learned(Metric::Bandwidth, 3), 0).unwrap();
        assert_eq!(database.load(&other, Metric::Bandwidth).unwrap(), None);
        assert!(database.load(&one, Metric::Bandwidth).unwrap().is_some());
        assert_eq!(fs::read_dir(tree.directory()).unwrap().count(), 1);
    }

    #[test]
    fn an_invalid_file_is_reported_and_not_changed() {
        let tree = Tree::new("database-bad");
        let database = Database::open(&tree.directory()).unwrap();
        database.save("disk", &learned(Metric::Bandwidth, 3), 0).unwrap();
        let file = database.files().unwrap().remove(0);
        let whole = fs::read_to_string(&file).unwrap();
        let problem = |text: &str| {
            fs::write(&file, text).unwrap();
            let problem = database.load("disk", Metric::Bandwidth).unwrap_err().to_string();
            assert_eq!(database.drives().unwrap_err().to_string(), problem);
            assert_eq!(fs::read_to_string(&file).unwrap(), text, "left alone");
            problem
        };
        for length in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
            let problem = problem(&whole[..length]);
            assert!(problem.contains("is damaged") && problem.contains("move it away"), "{problem}");
        }
        let newer = problem(&whole.replace("\"version\":1,\"drive\"", "\"version\":9,\"drive\""));
        assert!(newer.contains("has version 9, and this program reads version 1"), "{newer}");
        assert!(problem(r#"{"format": "other", "version": 1}"#).contains("no file of the tuner's database"));
        fs::write(tree.directory().join("file"), "").unwrap();
        for opened in [
            Database::open(&tree.directory().join("file")).err(),
            Database::open_existing(&tree.directory().join("file")).err(),
        ] {
            assert!(opened.unwrap().to_string().contains("is not a directory; name a directory"));
        }
    }

    /// A process that is killed while it writes leaves a file under another name.
    #[test]
    fn a_kill_during_a_save_leaves_the_old_content() {
        let tree = Tree::new("database-killed");
        let database = Database::open(&tree.directory()).unwrap();
        let state = learned(Metric::Bandwidth, 3);
        database.save("disk", &state, 0).unwrap();
        let file = database.files().unwrap().remove(0);
        let unfinished = format!("{}.{}.new", file.display(), u32::MAX);
        fs::write(&unfinished, "{\"format\": \"dwell").unwrap();
        assert_eq!(database.load("disk", Metric::Bandwidth).unwrap(), Some(state));
        assert_eq!(database.drives().unwrap().len(), 1);
        Database::open(&tree.directory()).unwrap();
        assert!(!Path::new(&unfinished).exists());
    }

    /// The size that the module's text names, with jumps across a whole device. Prints how long a save and a load take.
    #[test]
    #[ignore = "writes 80 MB"]
    fn six_thousand_clusters_of_random_jumps_are_saved_and_loaded() {
        let tree = Tree::new("database-large");
        let database = Database::open(&tree.directory()).unwrap();
        let mut random = Random::new(1);
        let mut state = learned(Metric::Bandwidth, 3);
        let first = state.clusters[0].clone();
        state.clusters = (0..6000)
            .map(|id| {
                let jump = |_| random.below(1 << 33) as f64 - (1_u64 << 32) as f64;
                let points = (0..1000).map(jump).collect();
                let performance = vec![(vec![123_456_789.123; 20], 7); 2];
                tuner::ClusterState { id, points, performance, ..first.clone() }
            })
            .collect();
        let start = std::time::Instant::now();
        let length = database.save("disk", &state, 0).unwrap();
        let saved = start.elapsed();
        assert!(length < LENGTH_MAX, "{length}");
        assert_eq!(database.load("disk", Metric::Bandwidth).unwrap(), Some(state));
        println!("{length} bytes, saved in {saved:?}, loaded in {:?}", start.elapsed() - saved);
    }
}
