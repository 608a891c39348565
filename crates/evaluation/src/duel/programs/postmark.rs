//! PostMark-like: the small files of a mail server.
//!
//! From the benchmark's paper (J. Katcher, "PostMark: a new file system benchmark", Network Appliance TR3022, 1997): the program creates
//! a pool of files of random size. Each transaction then creates or deletes a file, and reads a whole file or appends to one. At the end
//! the remaining files are deleted. The defaults are PostMark's: sizes from 500 bytes to 9.77 KB, all four kinds equally likely, 512-byte
//! buffered reads and writes. When transactions begin, the pool is on the disk and not in the page cache; at the end, their writes are on
//! the disk. Otherwise the benchmark would measure memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use elevator::Random;
use rustix::fs::{Advice, fadvise, syncfs};
use serde::{Deserialize, Serialize};

use super::{Recorder, text};

/// PostMark's defaults.
const LEAST: u64 = 500;
const MOST: u64 = 10_000;
const PIECE: usize = 512;

/// The amount of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PostMark {
    /// An empty directory; created if missing.
    pub directory: PathBuf,
    /// Files in the pool.
    pub files: u64,
    pub transactions: u64,
    /// Seed of the random numbers.
    pub seed: u64,
}

struct Pool<'a> {
    directory: &'a Path,
    random: Random,
    /// Numbers of the files that exist.
    files: Vec<u64>,
    made: u64,
    text: Vec<u8>,
}

impl PostMark {
    pub(crate) fn run(&self, recorder: &mut Recorder) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let mut random = Random::new(self.seed);
        let text = text(&mut random, MOST as usize);
        let mut pool = Pool { directory: &self.directory, random, files: Vec::new(), made: 0, text };
        for _ in 0..self.files {
            pool.create(recorder)?;
        }
        let directory = File::open(&self.directory)?;
        recorder.timed(|| Ok(syncfs(&directory)?))?;
        pool.drop_caches()?;
        for _ in 0..self.transactions {
            if !recorder.may_continue() {
                break;
            }
            pool.transaction(recorder)?;
            recorder.count();
        }
        while let Some(number) = pool.files.pop() {
            recorder.timed(|| fs::remove_file(pool.path(number)))?;
        }
        recorder.timed(|| Ok(syncfs(&directory)?))
    }
}

impl Pool<'_> {
    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(number.to_string())
    }

    /// Drops every file from the page cache.
    fn drop_caches(&self) -> io::Result<()> {
        for &number in &self.files {
            fadvise(File::open(self.path(number))?, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    fn any(&mut self) -> Option<usize> {
        let files = self.files.len() as u64;
        (files > 0).then(|| self.random.below(files) as usize)
    }

    fn transaction(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        if let Some(file) = self.any() {
            let path = self.path(self.files[file]);
            if self.random.below(2) == 0 { read(&path, recorder)? } else { self.append(&path, recorder)? }
        }
        match self.any() {
            Some(file) if self.random.below(2) == 0 => {
                let number = self.files.swap_remove(file);
                recorder.timed(|| fs::remove_file(self.path(number)))
            }
            _ => self.create(recorder),
        }
    }

    fn create(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        self.made += 1;
        let (path, bytes) = (self.path(self.made), LEAST + self.random.below(MOST - LEAST + 1));
        let mut file = recorder.timed(|| File::create_new(&path))?;
        self.files.push(self.made);
        self.write(&mut file, bytes, recorder)
    }

    fn append(&mut self, path: &Path, recorder: &mut Recorder) -> io::Result<()> {
        let bytes = 1 + self.random.below(LEAST);
        let mut file = recorder.timed(|| OpenOptions::new().append(true).open(path))?;
        self.write(&mut file, bytes, recorder)
    }

    fn write(&self, file: &mut File, bytes: u64, recorder: &mut Recorder) -> io::Result<()> {
        for piece in self.text[..bytes as usize].chunks(PIECE) {
            recorder.timed(|| file.write_all(piece))?;
            recorder.moved(piece.len());
        }
        Ok(())
    }
}

fn read(path: &Path, recorder: &mut Recorder) -> io::Result<()> {
    let mut file = recorder.timed(|| File::open(path))?;
    let mut piece = [0; PIECE];
    loop {
        let read = recorder.timed(|| file.read(&mut piece))?;
        if read == 0 {
            return Ok(());
        }
        recorder.moved(read);
    }
}
