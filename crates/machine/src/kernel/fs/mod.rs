//! The file system of the modelled machine, where it matters for the head: who lies where, and what has to be read to
//! find it. No time, no queue, no byte of data.
//!
//! Every operation takes effect at once and adds to [`Touched`] what it costs. `path` is absolute; `inode` one that the
//! file system gave out and that has not been evicted.
//!
//! | `FileSystem` | |
//! |---|---|
//! | `new(&Options, Extent) -> Result<Self, Error>` | an empty one, in that part of the device |
//! | `lookup(path, t) -> Result<Inode, Errno>` | walks there, reading directories and inode tables |
//! | `create(path, t)`, `mkdir(path, t) -> Result<Inode, Errno>` | |
//! | `unlink(path, t) -> Result<Inode, Errno>` | the name goes; call `evict` when nobody has it open |
//! | `rmdir(path, t) -> Result<(), Errno>` | |
//! | `rename(from, to, t) -> Result<Option<Inode>, Errno>` | whom it replaced, to be evicted |
//! | `readdir(path, t) -> Result<Vec<Entry>, Errno>` | in the order in which the directory holds them |
//! | `evict(inode, t)` | frees a file that has no name |
//! | `closed(inode, t)` | nobody writes it any more: what was preallocated is given back |
//! | `size(inode) -> u64`, `is_directory(inode)`, `inode_block(inode) -> Block` | |
//! | `set_size(inode, bytes, t) -> Result<(), Errno>` | cuts or extends |
//! | `map(inode, page, pages, &mut Vec<Run>, t)` | where pages lie, holes too; reads indirect or extent blocks |
//! | `allocate(inode, page, pages, &mut Vec<Run>, t) -> Result<(), Errno>` | gives every hole there a place; the new runs |
//! | `reserve(pages) -> Result<(), Errno>`, `unreserve(pages)` | delayed allocation's promise of space |
//! | `journal_area() -> Option<Extent>` | where the log lies |

mod words;

pub use words::{BLOCK_BYTES, BLOCK_SECTORS, Block, Entry, Extent, Inode, ROOT, Run, Touched};
