//! What was learned, in an embedded SQLite file, so that it survives restarts.
//!
//! One row a drive and metric, as values of one metric say nothing by another, and one a cluster. A drive is named by its model and
//! size, so that the same drive in another machine is the same (see [`Database::load`]). Saving writes only the clusters that changed.
//!
//! The tables and their versions are in `tables`, the rows here.

mod tables;

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::json;
use tuner::{ClusterState, Metric, State};

use self::tables::{APPLICATION, Made, SEEN_FROM_1, VERSION, make};
use crate::error::Error;
use crate::live_tuner::in_words;

/// How long a file is waited for that somebody else writes.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon it is tried again where SQLite does not wait.
const AGAIN: Duration = Duration::from_millis(5);

/// Tries again while somebody else has the file. SQLite waits by itself, but not where two could wait for each other: while
/// several begin at once, of whom each has a log kept beside the file, which takes the file alone.
fn patiently<T>(mut what: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let since = Instant::now();
    loop {
        match what() {
            Err(error) if is_busy(&error) && since.elapsed() < PATIENCE => thread::sleep(AGAIN),
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// The option that names the file in which is kept what is learned, and the one that names a file only to begin with.
const DATABASE: &str = "--database";
const TRANSFER: &str = "--transfer";

/// A file, and the option that names it, which is what advice is about.
#[derive(Clone, Debug)]
struct Given {
    path: PathBuf,
    option: &'static str,
}

impl Given {
    fn by(option: &'static str, path: &Path) -> Self {
        Self { path: path.to_owned(), option }
    }

    fn problem(&self, problem: String) -> Error {
        Error::Database { path: self.path.clone(), problem }
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => self.damaged(error),
            _ => self.problem(format!(
                "{error}; if that cannot be mended, give another file with {}",
                self.option
            )),
        }
    }

    fn damaged(&self, how: impl Display) -> Error {
        let option = self.option;
        // The one to begin with was asked for: moved away, it would be missed.
        let away = if option == TRANSFER { "leave it out" } else { "move it away" };
        self.problem(format!(
            "is damaged ({how}); {away} and what is learned begins anew, or give another with {option}"
        ))
    }
}

/// The file, open.
#[derive(Debug)]
pub struct Database {
    file: Given,
    connection: Connection,
    /// What the file has of each cluster.
    written: HashMap<(Learned, u64), Mark>,
    /// What it has of each drive by each metric beside the clusters: if it has something else, somebody else has saved.
    states: HashMap<Learned, String>,
}

/// What a row is of: a drive, and the metric by which was learned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Learned {
    drive: String,
    /// As in the state, in JSON.
    metric: String,
}

impl Learned {
    fn of(drive: &str, metric: Metric) -> Self {
        Self { drive: drive.to_owned(), metric: json!(metric).to_string() }
    }

    fn key(&self) -> [&str; 2] {
        [&self.drive, &self.metric]
    }
}

/// A cluster's fingerprint. Its window's points never change.
type Mark = u64;

fn mark(cluster: &ClusterState) -> Mark {
    let mut hasher = DefaultHasher::new();
    (cluster.hits, cluster.used, &cluster.successors).hash(&mut hasher);
    for (values, at_hit) in &cluster.performance {
        (values.len(), at_hit).hash(&mut hasher);
        values.iter().for_each(|value| value.to_bits().hash(&mut hasher));
    }
    hasher.finish()
}

/// What `patterns list` shows of a drive, as far as it was learned by one metric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// What it was learned by.
    #[serde(serialize_with = "said")]
    pub metric: Metric,
    /// Kinds of load known.
    pub kinds: u64,
    /// Windows of them.
    pub windows: u64,
    /// Clusters kept.
    pub clusters: u64,
    /// Windows that hit one of them.
    pub hits: u64,
    /// When it was last saved, in seconds since 1970.
    pub saved: i64,
}

fn said<S: Serializer>(metric: &Metric, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&in_words(*metric))
}

impl Database {
    /// Opens the file, or makes it. One of an older version is made one of this.
    ///
    /// # Errors
    /// It is damaged, of a newer version or another program's, or cannot be written.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| Error::file(directory, error))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Self::with(Given::by(DATABASE, path), flags)
    }

    /// Opens the file to look at it; `None` if there is none, or nothing in it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look(path: &Path) -> Result<Option<Self>, Error> {
        Self::look_at(Given::by(DATABASE, path))
    }

    /// The same of a file that `--transfer` names.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look_to_transfer(path: &Path) -> Result<Option<Self>, Error> {
        Self::look_at(Given::by(TRANSFER, path))
    }

    fn look_at(file: Given) -> Result<Option<Self>, Error> {
        // Nothing is what a start on a full disk leaves.
        if !std::fs::metadata(&file.path).is_ok_and(|there| !there.is_file() || there.len() > 0) {
            return Ok(None);
        }
        Self::with(file, OpenFlags::SQLITE_OPEN_READ_ONLY).map(Some)
    }

    fn with(file: Given, flags: OpenFlags) -> Result<Self, Error> {
        let Given { path, option } = &file;
        // SQLite takes a block device, which has no length, for a file to be filled, and writes over what is on it.
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let what = if path.is_dir() { "a directory" } else { "no regular file" };
            return Err(file.problem(format!("is {what}; give a file with {option}")));
        }
        let failed = |error| file.failed(&error);
        let writes = flags.contains(OpenFlags::SQLITE_OPEN_CREATE);
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let all = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match path.to_str() {
            // SQLite would make two files beside it to see that nothing is in them, and whoever only looks may not remove them.
            // Where somebody writes they are there, and looked at.
            Some(path) if !writes && !Path::new(&log).exists() => {
                let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
                let as_it_is = format!("file:{path}?immutable=1");
                Connection::open_with_flags(as_it_is, all | OpenFlags::SQLITE_OPEN_URI)
            }
            _ => Connection::open_with_flags(path, all),
        };
        let mut connection = connection.map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let mut made = patiently(|| Made::at_once(&connection)).map_err(failed)?;
        if writes && (made == Made::NOTHING || made.is_of_version_1()) {
            patiently(|| make(&mut connection)).map_err(failed)?;
            made = patiently(|| Made::at_once(&connection)).map_err(failed)?;
        }
        match (made.application, made.version) {
            (0, 0) if made == Made::NOTHING => {
                return Err(file.problem("is empty; 'dwell tune' fills it".to_owned()));
            }
            (APPLICATION, VERSION) => {}
            (APPLICATION, 1) => connection.execute_batch(SEEN_FROM_1).map_err(failed)?,
            (APPLICATION, newer) if newer > VERSION => {
                return Err(file.problem(format!(
                    "is of version {newer}, this program reads {VERSION}; use a newer dwell, or another file with {option}"
                )));
            }
            _ => {
                return Err(
                    file.problem(format!("is no database of dwell's; give another file with {option}"))
                );
            }
        }
        connection.execute_batch("PRAGMA foreign_keys = ON;").map_err(failed)?;
        if writes {
            let log = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";
            patiently(|| connection.execute_batch(log)).map_err(failed)?;
        }
        let check = || connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        let sound: String = patiently(check).map_err(failed)?;
        if sound != "ok" {
            return Err(file.damaged(&sound));
        }
        Ok(Self { file, connection, written: HashMap::new(), states: HashMap::new() })
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        self.file.failed(&error)
    }

    /// Every drive that something is known of, by each metric.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn drives(&self) -> Result<Vec<Drive>, Error> {
        let text = "SELECT name, saved, count(id), coalesce(sum(hits), 0), state
            FROM drive LEFT JOIN cluster ON cluster.drive = drive.name AND cluster.metric = drive.metric
            GROUP BY drive.name, drive.metric ORDER BY drive.name, drive.metric";
        let mut query = self.connection.prepare(text).map_err(|e| self.failed(e))?;
        let rows = query.query_map([], |row| {
            let counted = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((counted, row.get::<_, String>(4)?))
        });
        let rows: Result<Vec<_>, _> = rows.and_then(Iterator::collect);
        let drive = |((name, saved, clusters, hits), state): (_, String)| {
            let state: State = self.parsed("what is kept of the drive", &state)?;
            let windows =
                state.kinds.loads().filter_map(|kind| state.kinds.load(kind)).map(|load| load.1).sum();
            let kinds = state.kinds.count() as u64;
            Ok(Drive { name, metric: state.metric, kinds, windows, clusters, hits, saved })
        };
        rows.map_err(|e| self.failed(e))?.into_iter().map(drive).collect()
    }

    /// What was learned of a drive by a metric, if anything was.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn load(&mut self, drive: &str, metric: Metric) -> Result<Option<State>, Error> {
        let of = Learned::of(drive, metric);
        let Some(text) = saved(&self.connection, &of).map_err(|e| self.failed(e))? else { return Ok(None) };
        let mut state: State = self.parsed("what is kept of the drive", &text)?;
        state.clusters = self.clusters(&of)?;
        for cluster in &state.clusters {
            self.written.insert((of.clone(), cluster.id), mark(cluster));
        }
        self.states.insert(of, text);
        Ok(Some(state))
    }

    fn clusters(&self, of: &Learned) -> Result<Vec<ClusterState>, Error> {
        let text = "SELECT id, requests, hits, used, points, performance, successors
            FROM cluster WHERE drive = ?1 AND metric = ?2 ORDER BY id";
        let mut query = self.connection.prepare(text).map_err(|e| self.failed(e))?;
        let mut rows = query.query(of.key()).map_err(|e| self.failed(e))?;
        let mut clusters = Vec::new();
        while let Some(row) = rows.next().map_err(|e| self.failed(e))? {
            let read = || -> rusqlite::Result<_> {
                let points: Vec<u8> = row.get(4)?;
                let (performance, successors): (String, String) = (row.get(5)?, row.get(6)?);
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, points, performance, successors))
            };
            let (id, requests, hits, used, points, performance, successors) =
                read().map_err(|e| self.failed(e))?;
            clusters.push(ClusterState {
                id,
                requests,
                hits,
                used,
                points: points
                    .chunks_exact(8)
                    .map(|eight| f64::from_le_bytes(eight.try_into().unwrap_or_default()))
                    .collect(),
                performance: self.parsed("values of a cluster", &performance)?,
                successors: self.parsed("links of a cluster", &successors)?,
            });
        }
        Ok(clusters)
    }

    fn parsed<T: DeserializeOwned>(&self, what: &str, text: &str) -> Result<T, Error> {
        serde_json::from_str(text).map_err(|error| self.file.damaged(format!("{what}: {error}")))
    }

    /// Keeps what was learned of a drive by the state's metric: all of it or, if this fails, nothing new. Of two that save under one
    /// name, which are drives alike in one machine, the later one is kept whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&mut self, drive: &str, state: &State, now: i64) -> Result<(), Error> {
        let rest = State { clusters: Vec::new(), ..state.clone() };
        let file = self.file.clone();
        let failed = |error: rusqlite::Error| file.failed(&error);
        let text =
            |value: Result<String, serde_json::Error>| value.map_err(|error| file.problem(error.to_string()));
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let of = Learned::of(drive, state.metric);
        if saved(&transaction, &of).map_err(failed)?.as_ref() != self.states.get(&of) {
            let text = "DELETE FROM cluster WHERE drive = ?1 AND metric = ?2";
            transaction.execute(text, of.key()).map_err(failed)?;
            self.written.retain(|(written, _), _| *written != of);
        }
        let state_text = text(serde_json::to_string(&rest))?;
        transaction
            .execute(
                "INSERT INTO drive VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT (name, metric) DO UPDATE SET state = excluded.state, saved = excluded.saved",
                params![of.drive, of.metric, state_text, now],
            )
            .map_err(failed)?;
        let mut written = Vec::new();
        for cluster in &state.clusters {
            let key = (of.clone(), cluster.id);
            let mark = mark(cluster);
            if self.written.get(&key) == Some(&mark) {
                continue;
            }
            let points: Vec<u8> = cluster.points.iter().flat_map(|point| point.to_le_bytes()).collect();
            let performance = text(serde_json::to_string(&cluster.performance))?;
            let successors = text(serde_json::to_string(&cluster.successors))?;
            transaction
                .execute(
                    "INSERT OR REPLACE INTO cluster VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    params![
                        of.drive,
                        of.metric,
                        cluster.id,
                        cluster.requests,
                        cluster.hits,
                        cluster.used,
                        points,
                        performance,
                        successors
                    ],
                )
                .map_err(failed)?;
            written.push((key, mark));
        }
        let kept: std::collections::HashSet<u64> = state.clusters.iter().map(|cluster| cluster.id).collect();
        let is_gone = |(written, id): &(Learned, u64)| *written == of && !kept.contains(id);
        for (_, id) in self.written.keys().filter(|key| is_gone(key)) {
            let text = "DELETE FROM cluster WHERE drive = ?1 AND metric = ?2 AND id = ?3";
            transaction.execute(text, params![of.drive, of.metric, id]).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        self.written.retain(|key, _| !is_gone(key));
        self.written.extend(written);
        self.states.insert(of, state_text);
        Ok(())
    }

    /// Forgets what was learned of a drive by a metric; whether anything was.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget(&mut self, drive: &str, metric: Metric) -> Result<bool, Error> {
        let of = Learned::of(drive, metric);
        self.written.retain(|(written, _), _| *written != of);
        let rows = self.connection.execute("DELETE FROM drive WHERE name = ?1 AND metric = ?2", of.key());
        rows.map(|rows| rows > 0).map_err(|error| self.failed(error))
    }
}

/// What the file has beside the clusters.
fn saved(connection: &Connection, of: &Learned) -> rusqlite::Result<Option<String>> {
    let text = "SELECT state FROM drive WHERE name = ?1 AND metric = ?2";
    connection.query_row(text, of.key(), |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use elevator::{Op, Sector, Sectors, Span, Time};
    use tuner::{Access, Analyser, Metric, Observed, Parameters, Performance, Random, SchedulerId, Window};

    use super::*;
    use crate::testing::Tree;

    fn analyser() -> Analyser {
        analyser_by(Metric::Bandwidth)
    }

    fn analyser_by(metric: Metric) -> Analyser {
        let names = ["none", "bfq"].map(str::to_owned).to_vec();
        Analyser::new(names, metric, Parameters::by_clusters(), Random::seeded(7)).unwrap()
    }

    /// What is known after so many windows.
    fn learned(metric: Metric, windows: u64) -> State {
        let mut analyser = analyser_by(metric);
        (0..windows).for_each(|n| step(&mut analyser, n));
        let mut state = analyser.state();
        state.clusters.sort_by_key(|cluster| cluster.id);
        state
    }

    /// One window of one of three patterns.
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
        let observed =
            Observed { scheduler: Some(SchedulerId((n % 2) as usize)), performance, drained: None };
        analyser.window(&window, &observed);
    }

    /// SQLite would write over a block device.
    #[test]
    fn what_is_no_file_is_not_opened() {
        for (path, what) in [("/dev/null", "no regular file"), ("/", "a directory")] {
            for opened in [Database::open(Path::new(path)).err(), Database::look(Path::new(path)).err()] {
                assert!(opened.unwrap().to_string().contains(what), "{path}");
            }
        }
    }

    #[test]
    fn what_is_saved_bit_by_bit_is_what_is_loaded() {
        let tree = Tree::new("database");
        let path = tree.directory().join("tuner.sqlite");
        let (mut database, mut analyser) = (Database::open(&path).unwrap(), analyser());
        for n in 0..20 {
            step(&mut analyser, n);
            database.save("disk", &analyser.state(), 42).unwrap();
        }
        drop(database);
        let mut database = Database::look(&path).unwrap().unwrap();
        let mut loaded = database.load("disk", Metric::Bandwidth).unwrap().unwrap();
        let mut state = analyser.state();
        loaded.clusters.sort_by_key(|cluster| cluster.id);
        state.clusters.sort_by_key(|cluster| cluster.id);
        assert_eq!(loaded, state);
        let drives = database.drives().unwrap();
        assert_eq!((drives[0].name.as_str(), drives[0].saved, drives[0].hits), ("disk", 42, 20));
        assert!(database.load("another", Metric::Bandwidth).unwrap().is_none());
    }

    /// Metrics whose names in JSON are of each form that there is.
    const METRICS: [Metric; 3] = [
        Metric::Bandwidth,
        Metric::Latency(tuner::Which::P99, tuner::Of::Reads),
        Metric::External(tuner::Better::Lower),
    ];

    #[test]
    fn what_was_learned_by_one_metric_stays_beside_what_is_learned_by_others() {
        let tree = Tree::new("database-metrics");
        let mut database = Database::open(&tree.directory().join("tuner.sqlite")).unwrap();
        let states = METRICS.map(|metric| learned(metric, 9));
        for state in &states {
            assert!(database.load("disk", state.metric).unwrap().is_none());
            database.save("disk", state, 0).unwrap();
        }
        assert_eq!(METRICS.map(|metric| database.load("disk", metric).unwrap()), states.map(Some));
        let known: Vec<_> =
            database.drives().unwrap().into_iter().map(|drive| (drive.metric, drive.hits)).collect();
        assert!(known.len() == 3 && METRICS.iter().all(|&metric| known.contains(&(metric, 9))), "{known:?}");
        assert!(database.forget("disk", Metric::Bandwidth).unwrap());
        assert!(database.load("disk", Metric::Bandwidth).unwrap().is_none());
        assert!(METRICS[1..].iter().all(|&metric| database.load("disk", metric).unwrap().is_some()));
    }

    /// A file as the first version wrote it, with a drive for each state.
    fn write_version_1(path: &Path, states: &[(&str, State)]) {
        let file = Connection::open(path).unwrap();
        file.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 1;
            CREATE TABLE drive (name TEXT PRIMARY KEY, state TEXT NOT NULL, saved INTEGER NOT NULL) STRICT;
            CREATE TABLE cluster (
                drive TEXT NOT NULL REFERENCES drive (name) ON DELETE CASCADE,
                id INTEGER NOT NULL, requests INTEGER NOT NULL, hits INTEGER NOT NULL, used INTEGER NOT NULL,
                points BLOB NOT NULL, performance TEXT NOT NULL, successors TEXT NOT NULL,
                PRIMARY KEY (drive, id)
            ) STRICT;"
        ))
        .unwrap();
        for (drive, state) in states {
            let rest = State { clusters: Vec::new(), ..state.clone() };
            let text = serde_json::to_string(&rest).unwrap();
            file.execute("INSERT INTO drive VALUES (?1, ?2, 42)", [*drive, &text]).unwrap();
            for cluster in &state.clusters {
                let points: Vec<u8> = cluster.points.iter().flat_map(|point| point.to_le_bytes()).collect();
                let texts = (json!(cluster.performance).to_string(), json!(cluster.successors).to_string());
                let numbers = (cluster.id, cluster.requests, cluster.hits, cluster.used);
                file.execute(
                    "INSERT INTO cluster VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![drive, numbers.0, numbers.1, numbers.2, numbers.3, points, texts.0, texts.1],
                )
                .unwrap();
            }
        }
    }

    #[test]
    fn a_file_of_the_first_version_is_read_as_it_is_and_made_new_by_whoever_writes() {
        let tree = Tree::new("database-first");
        let path = tree.directory().join("tuner.sqlite");
        let states: Vec<_> =
            ["one", "two", "three"].into_iter().zip(METRICS.map(|metric| learned(metric, 9))).collect();
        write_version_1(&path, &states);
        let all_of = |mut database: Database| {
            for (drive, state) in &states {
                assert_eq!(database.load(drive, state.metric).unwrap().as_ref(), Some(state));
            }
            let drives = database.drives().unwrap();
            assert!(drives.iter().all(|drive| (drive.saved, drive.hits) == (42, 9)), "{drives:?}");
            assert!(database.load("one", Metric::Iops).unwrap().is_none());
            drives.len()
        };
        let before = std::fs::read(&path).unwrap();
        assert_eq!(all_of(Database::look(&path).unwrap().unwrap()), 3);
        assert_eq!(std::fs::read(&path).unwrap(), before, "whoever looks changes nothing");
        let mut database = Database::open(&path).unwrap();
        database.save("one", &learned(Metric::Iops, 5), 43).unwrap();
        assert!(database.forget("one", Metric::Iops).unwrap());
        assert_eq!(all_of(database), 3);
        assert_eq!(all_of(Database::look(&path).unwrap().unwrap()), 3);
        assert_eq!(Made::of(&Connection::open(&path).unwrap()).map(|made| made.version), Ok(VERSION));
    }

    #[test]
    fn several_that_find_an_old_file_make_it_new_once() {
        let tree = Tree::new("database-first-at-once");
        for round in 0..20 {
            let path = tree.directory().join(round.to_string());
            write_version_1(&path, &[("disk", learned(Metric::Bandwidth, 3))]);
            let opened: Vec<_> = at_once(|| Database::open(&path)?.load("disk", Metric::Bandwidth));
            assert!(opened.iter().all(|state| matches!(state, Ok(Some(_)))), "{opened:?}");
        }
    }

    /// What each of four threads that begin together makes of it.
    fn at_once<T: Send>(what: impl Fn() -> T + Sync) -> Vec<T> {
        let start = std::sync::Barrier::new(4);
        let begin = || {
            start.wait();
            what()
        };
        thread::scope(|scope| {
            let all = [(); 4].map(|()| scope.spawn(begin));
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    /// Links are moved from one cluster to another by hand, and values are noted for clusters other than the window's own
    /// (`credit_choices`) or forgotten (a search that tries something else): none of that is a hit.
    #[test]
    fn what_changes_of_a_cluster_without_a_hit_is_saved_too() {
        let tree = Tree::new("database-changed");
        let mut database = Database::open(&tree.directory().join("tuner.sqlite")).unwrap();
        let mut analyser = analyser();
        (0..12).for_each(|n| step(&mut analyser, n));
        let mut state = analyser.state();
        state.clusters.sort_by_key(|cluster| cluster.id);
        let mut saved_is_loaded = |state: &State| {
            database.save("disk", state, 0).unwrap();
            assert_eq!(database.load("disk", Metric::Bandwidth).unwrap().unwrap().clusters, state.clusters);
        };
        saved_is_loaded(&state);
        state.clusters[1].successors = vec![(0, 1), (2, 2)];
        saved_is_loaded(&state);
        state.clusters[1].successors = vec![(2, 3)];
        saved_is_loaded(&state);
        state.clusters[2].performance[0].0 = vec![7.0];
        saved_is_loaded(&state);
        state.clusters[2].performance[0].0 = vec![8.0];
        saved_is_loaded(&state);
        state.clusters[2].performance[0] = (Vec::new(), 0);
        saved_is_loaded(&state);
    }

    #[test]
    fn clusters_that_are_gone_go_from_the_file() {
        let tree = Tree::new("database-gone");
        let mut database = Database::open(&tree.directory().join("tuner.sqlite")).unwrap();
        let mut analyser = analyser();
        (0..6).for_each(|n| step(&mut analyser, n));
        let mut state = analyser.state();
        database.save("disk", &state, 0).unwrap();
        let gone = state.clusters.remove(0).id;
        database.save("disk", &state, 0).unwrap();
        assert!(
            database
                .load("disk", Metric::Bandwidth)
                .unwrap()
                .unwrap()
                .clusters
                .iter()
                .all(|cluster| cluster.id != gone)
        );
        assert!(
            database.forget("disk", Metric::Bandwidth).unwrap()
                && !database.forget("disk", Metric::Bandwidth).unwrap()
        );
        assert!(database.load("disk", Metric::Bandwidth).unwrap().is_none());
    }

    #[test]
    fn bad_files_are_said_clearly_and_left_alone() {
        let tree = Tree::new("database-bad");
        let path = |name: &str| tree.directory().join(name);
        let problem = |name: &str| Database::open(&path(name)).unwrap_err().to_string();
        std::fs::write(path("text"), "this is no database, and long enough to be read as the header of one, or more: 0123456789 0123456789").unwrap();
        assert!(problem("text").contains("is damaged") && problem("text").contains("move it away"));
        Connection::open(path("newer"))
            .unwrap()
            .execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 9; CREATE TABLE x (y);"
            ))
            .unwrap();
        assert!(problem("newer").contains("is of version 9, this program reads 2"), "{}", problem("newer"));
        Connection::open(path("other")).unwrap().execute_batch("CREATE TABLE x (y);").unwrap();
        assert!(problem("other").contains("no database of dwell's"));
        std::fs::create_dir(path("directory")).unwrap();
        assert!(problem("directory").contains("is a directory; give a file with --database"));
        assert!(Database::look(&path("absent")).unwrap().is_none());
        std::fs::write(path("nothing"), "").unwrap();
        assert!(Database::look(&path("nothing")).unwrap().is_none());
        // Torn in the middle: pages of zeroes where the clusters were.
        let mut database = Database::open(&path("torn")).unwrap();
        let mut analyser = analyser();
        (0..9).for_each(|n| step(&mut analyser, n));
        database.save("disk", &analyser.state(), 0).unwrap();
        database.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
        drop(database);
        let mut bytes = std::fs::read(path("torn")).unwrap();
        let end = bytes.len().min(40_000);
        bytes[4096..end].fill(0);
        std::fs::write(path("torn"), bytes).unwrap();
        let said = Database::open(&path("torn"))
            .map(|mut d| d.load("disk", Metric::Bandwidth).err().map(|e| e.to_string()));
        let said = said.map_or_else(|e| e.to_string(), |e| e.unwrap_or_default());
        assert!(said.contains("is damaged"), "{said}");
    }

    /// Who is told of an option that was not given looks for the fault in the wrong file.
    #[test]
    fn advice_names_the_option_that_gave_the_file() {
        let tree = Tree::new("database-transfer");
        let path = |name: &str| tree.directory().join(name);
        std::fs::write(
            path("text"),
            "no database, and long enough to be read as the header of one: 0123456789 0123456789 0123456789",
        )
        .unwrap();
        Connection::open(path("other")).unwrap().execute_batch("CREATE TABLE x (y);").unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        for name in ["text", "other", "directory"] {
            let said = Database::look_to_transfer(&path(name)).unwrap_err().to_string();
            assert!(said.contains("--transfer") && !said.contains("--database"), "{said}");
            assert!(!said.contains("move it away"), "it would only be missing: {said}");
        }
    }

    #[test]
    fn several_that_begin_at_once_make_one_file() {
        let tree = Tree::new("database-at-once");
        for round in 0..40 {
            let path = tree.directory().join(round.to_string());
            let opened = at_once(|| Database::open(&path).map(drop));
            assert!(opened.iter().all(Result::is_ok), "{opened:?}");
        }
    }

    /// Two drives alike have one name.
    #[test]
    fn of_two_that_learn_under_one_name_the_last_to_save_is_kept_whole() {
        let tree = Tree::new("database-two");
        let path = tree.directory().join("tuner.sqlite");
        let mut both = [7, 8].map(|n| {
            let mut analyser = analyser();
            (0..n).for_each(|n| step(&mut analyser, n));
            (Database::open(&path).unwrap(), analyser)
        });
        // Saved by turns; only the other one learns on.
        let mut save = |which: usize, learns: bool| {
            let (database, analyser) = &mut both[which];
            if learns {
                (20..23).for_each(|n| step(analyser, n));
            }
            let mut state = analyser.state();
            database.save("disk", &state, 0).unwrap();
            let mut loaded =
                Database::look(&path).unwrap().unwrap().load("disk", Metric::Bandwidth).unwrap().unwrap();
            loaded.clusters.sort_by_key(|cluster| cluster.id);
            state.clusters.sort_by_key(|cluster| cluster.id);
            assert!(loaded == state, "a mixture of both");
        };
        for (which, learns) in [(0, false), (1, true), (0, false), (1, false), (0, true)] {
            save(which, learns);
        }
    }

    #[test]
    fn whoever_looks_leaves_nothing() {
        let tree = Tree::new("database-look");
        let path = tree.directory().join("tuner.sqlite");
        let files = || std::fs::read_dir(tree.directory()).unwrap().count();
        Database::open(&path).unwrap().save("disk", &analyser().state(), 0).unwrap();
        assert_eq!(files(), 1);
        assert!(Database::look(&path).unwrap().unwrap().load("disk", Metric::Bandwidth).unwrap().is_some());
        assert_eq!(files(), 1, "no file of SQLite's beside it");
        // What is being written, and not yet in the file itself, is seen all the same.
        let mut open = Database::open(&path).unwrap();
        open.save("another", &analyser().state(), 0).unwrap();
        assert!(
            Database::look(&path).unwrap().unwrap().load("another", Metric::Bandwidth).unwrap().is_some()
        );
    }
}
