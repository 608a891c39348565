//! PostMark-like: the small files of a mail server.
//!
//! As the benchmark's paper describes it (J. Katcher, "PostMark: a new file system benchmark", Network Appliance TR3022, 1997):
//! a pool of files of random size is made; then each transaction either creates or deletes a file, and either reads one whole
//! or appends to it; at the end what is left is deleted. Its defaults are kept: sizes from 500 bytes to 9.77 KB, all four
//! kinds equally likely, 512-byte reads and writes buffered by the page cache. The pool is on the disk and not in the page cache
//! when transactions begin, and what they wrote is on the disk at the end, or the time would be that of memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use elevator::model::Random;
use rustix::fs::{Advice, fadvise, syncfs};
use serde::{Deserialize, Serialize};

use super::{Round, text};

/// PostMark's defaults.
const LEAST: u64 = 500;
const MOST: u64 = 10_000;
const PIECE: usize = 512;

/// How much work with small files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PostMark {
    /// An empty directory, made if it is not there.
    pub directory: PathBuf,
    /// Files in the pool.
    pub files: u64,
    /// Transactions.
    pub transactions: u64,
    /// Everything that is drawn is drawn from this.
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
    pub(crate) fn run(&self, round: &mut Round) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let mut random = Random::new(self.seed);
        let text = text(&mut random, MOST as usize);
        let mut pool = Pool { directory: &self.directory, random, files: Vec::new(), made: 0, text };
        for _ in 0..self.files {
            pool.create(round)?;
        }
        let directory = File::open(&self.directory)?;
        round.timed(|| Ok(syncfs(&directory)?))?;
        pool.forget()?;
        for _ in 0..self.transactions {
            if !round.goes_on() {
                break;
            }
            pool.transaction(round)?;
            round.count();
        }
        while let Some(number) = pool.files.pop() {
            round.timed(|| fs::remove_file(pool.path(number)))?;
        }
        round.timed(|| Ok(syncfs(&directory)?))
    }
}

impl Pool<'_> {
    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(number.to_string())
    }

    /// Has the page cache forget every file.
    fn forget(&self) -> io::Result<()> {
        for &number in &self.files {
            fadvise(File::open(self.path(number))?, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    fn any(&mut self) -> Option<usize> {
        let files = self.files.len() as u64;
        (files > 0).then(|| self.random.below(files) as usize)
    }

    fn transaction(&mut self, round: &mut Round) -> io::Result<()> {
        if let Some(file) = self.any() {
            let path = self.path(self.files[file]);
            if self.random.below(2) == 0 { read(&path, round)? } else { self.append(&path, round)? }
        }
        match self.any() {
            Some(file) if self.random.below(2) == 0 => {
                let number = self.files.swap_remove(file);
                round.timed(|| fs::remove_file(self.path(number)))
            }
            _ => self.create(round),
        }
    }

    fn create(&mut self, round: &mut Round) -> io::Result<()> {
        self.made += 1;
        let (path, bytes) = (self.path(self.made), LEAST + self.random.below(MOST - LEAST + 1));
        let mut file = round.timed(|| File::create_new(&path))?;
        self.files.push(self.made);
        self.write(&mut file, bytes, round)
    }

    fn append(&mut self, path: &Path, round: &mut Round) -> io::Result<()> {
        let bytes = 1 + self.random.below(LEAST);
        let mut file = round.timed(|| OpenOptions::new().append(true).open(path))?;
        self.write(&mut file, bytes, round)
    }

    fn write(&self, file: &mut File, bytes: u64, round: &mut Round) -> io::Result<()> {
        for piece in self.text[..bytes as usize].chunks(PIECE) {
            round.timed(|| file.write_all(piece))?;
            round.moved(piece.len());
        }
        Ok(())
    }
}

fn read(path: &Path, round: &mut Round) -> io::Result<()> {
    let mut file = round.timed(|| File::open(path))?;
    let mut piece = [0; PIECE];
    loop {
        let read = round.timed(|| file.read(&mut piece))?;
        if read == 0 {
            return Ok(());
        }
        round.moved(read);
    }
}
