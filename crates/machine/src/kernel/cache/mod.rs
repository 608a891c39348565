//! The page cache: which pages of which files are in memory, in which order they leave it, and which are dirty.

mod files;
mod lru;
mod pages;
mod readahead;

pub(super) use files::CachedFiles;
pub(super) use lru::{List, Lru};
pub(super) use pages::{FileId, Page, PageId, Pages};
pub(super) use readahead::{Ahead, Demand, MIN_PAGES, ReadAheadState};
