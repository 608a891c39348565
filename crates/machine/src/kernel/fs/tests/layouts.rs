//! Tests of layouts on the device.

use super::super::space::GROUP;
use super::super::*;

const GB: u64 = 1 << 30;

fn made(options: &Options) -> FileSystem {
    FileSystem::new(options, Block(0), 40 * GB / BLOCK_BYTES).unwrap()
}

fn runs(fs: &FileSystem, inode: Inode) -> Vec<(u64, u32, Option<u64>)> {
    let mut runs = Vec::new();
    let pages = fs.size(inode).div_ceil(BLOCK_BYTES) as u32;
    fs.map(inode, 0, pages, &mut runs, &mut Touched::default()).unwrap();
    runs.iter().map(|run| (run.page, run.pages, run.block.map(|block| block.0))).collect()
}

fn append(fs: &mut FileSystem, inode: Inode, by: u32, pages: u64) {
    let (size, mut touched) = (fs.size(inode), Touched::default());
    fs.set_size(inode, size + pages * BLOCK_BYTES, &mut touched).unwrap();
    fs.allocate(inode, size / BLOCK_BYTES, pages as u32, by, &mut Vec::new(), &mut touched).unwrap();
}

/// ext2: contiguous except for indirect blocks, which lie where they are needed.
#[test]
fn indirect_blocks_interrupt_a_sequential_file() {
    for options in [Options::ext2(), Options::ext3()] {
        let mut fs = made(&options);
        let file = Image::new(&mut fs).file("/big", 20 << 20).unwrap();
        let runs = runs(&fs, file);
        let start = runs[0].2.unwrap();
        // 12 direct pages, an indirect block, 1024 pages, a double and a single indirect block, and so on.
        let expected = [
            (0, 12, Some(start)),
            (12, 1024, Some(start + 13)),
            (1036, 1024, Some(start + 13 + 1024 + 2)),
            (2060, 1024, Some(start + 13 + 1024 + 2 + 1025)),
        ];
        assert_eq!(runs[..4], expected);
        fs.check().unwrap();
    }
}

#[test]
fn a_sequential_file_with_extents_is_contiguous() {
    for options in [Options::ext4(), Options::xfs_like()] {
        let mut fs = made(&options);
        let file = Image::new(&mut fs).file("/big", 60 << 20).unwrap();
        assert_eq!(runs(&fs, file).len(), 1, "{options:?}");
        fs.check().unwrap();
    }
}

#[test]
fn small_areas_are_rejected() {
    for options in [Options::ext2(), Options::ext3(), Options::ext4(), Options::xfs_like()] {
        for blocks in [0, 1, 60] {
            let made = FileSystem::new(&options, Block(0), blocks);
            assert!(matches!(made, Err(MakeError::TooSmall { .. })), "{options:?} in {blocks}");
        }
    }
}

/// Extents of a file whose writer alternates with another writer of the same colour in the same directory.
fn extents_of_two_writers(options: &Options) -> usize {
    let mut fs = made(options);
    let mut touched = Touched::default();
    let a = fs.create("/a", &mut touched).unwrap();
    let b = fs.create("/b", &mut touched).unwrap();
    for _ in 0..1000 {
        append(&mut fs, a, 16, 1);
        append(&mut fs, b, 32, 1);
    }
    fs.check().unwrap();
    runs(&fs, a).len()
}

#[test]
fn preallocation_reduces_interleaving() {
    let ext = |ahead| Options::Ext(Ext { ahead, ..Ext::default() });
    // Each block; every eight; windows that double; 64 KB in XFS; up to 8 MB in ext4.
    let nothing = extents_of_two_writers(&ext(Ahead::Nothing));
    let eight = extents_of_two_writers(&ext(Ahead::Preallocate));
    let windows = extents_of_two_writers(&ext(Ahead::Reserve));
    let xfs = extents_of_two_writers(&Options::xfs_like());
    let multiblock = extents_of_two_writers(&Options::ext4());
    assert!(nothing >= 990, "{nothing}");
    assert!((120..=130).contains(&eight), "{eight}");
    assert!((4..=12).contains(&windows), "{windows}");
    assert!((50..=70).contains(&xfs), "{xfs}");
    assert!(multiblock <= 25, "{multiblock}");
}

#[test]
fn colours_prevent_interleaving() {
    let mut fs = made(&Options::Ext(Ext { ahead: Ahead::Nothing, ..Ext::default() }));
    let mut touched = Touched::default();
    let a = fs.create("/a", &mut touched).unwrap();
    let b = fs.create("/b", &mut touched).unwrap();
    for _ in 0..1000 {
        append(&mut fs, a, 1, 1);
        append(&mut fs, b, 2, 1);
    }
    let (a, b) = (runs(&fs, a), runs(&fs, b));
    assert_eq!((a.len(), b.len()), (2, 2));
    assert_eq!(b[0].2.unwrap() - a[0].2.unwrap(), u64::from(GROUP / 16));
}

/// ext2 searches for one free block nearby before it searches for eight together.
#[test]
fn ext2_prefers_a_near_block_to_eight_far_ones() {
    let mut fs = made(&Options::Ext(Ext { ahead: Ahead::Nothing, ..Ext::default() }));
    let mut touched = Touched::default();
    let mut image = Image::new(&mut fs);
    // Two files of one block each with a third between them, which is removed, and a file that ends before all of them.
    image.place(Some(GB)).unwrap();
    let files: Vec<Inode> = (0..4).map(|i| image.file(&format!("/{i}"), 4096).unwrap()).collect();
    let at: Vec<u64> = files.iter().map(|&file| runs(&fs, file)[0].2.unwrap()).collect();
    assert_eq!(at[3] - at[0], 3);
    let gone = fs.unlink("/2", &mut touched).unwrap();
    fs.evict(gone, &mut touched);
    append(&mut fs, files[0], 0, 2);
    let extents = runs(&fs, files[0]);
    assert_eq!(extents, [(0, 1, Some(at[0])), (1, 1, Some(at[2])), (2, 1, Some(at[3] + 1))]);
}

/// The next file uses blocks that a closed file had preallocated.
#[test]
fn closing_frees_preallocated_blocks() {
    for options in
        [Options::ext2(), Options::Ext(Ext { ahead: Ahead::Reserve, ..Ext::ext3() }), Options::xfs_like()]
    {
        let mut fs = made(&options);
        let file = fs.create("/a", &mut Touched::default()).unwrap();
        let free = fs.free_blocks();
        append(&mut fs, file, 0, 1);
        assert!(fs.free_blocks() < free - 1, "{options:?}");
        fs.closed(file);
        assert_eq!(fs.free_blocks(), free - 1, "{options:?}");
    }
}

/// Files allocated at writeback, after their close, are adjacent.
#[test]
fn delayed_allocation_packs_small_files() {
    for options in [Options::ext4(), Options::xfs_like()] {
        let mut fs = made(&options);
        let mut touched = Touched::default();
        let files: Vec<Inode> = (0..50)
            .map(|i| {
                let file = fs.create(&format!("/{i}"), &mut touched).unwrap();
                fs.set_size(file, 20 * BLOCK_BYTES, &mut touched).unwrap();
                fs.closed(file);
                file
            })
            .collect();
        for &file in &files {
            fs.allocate(file, 0, 20, 0, &mut Vec::new(), &mut touched).unwrap();
        }
        let starts: Vec<u64> = files.iter().map(|&file| runs(&fs, file)[0].2.unwrap()).collect();
        let apart = starts.windows(2).filter(|pair| pair[1] != pair[0] + 20).count();
        assert!(apart <= 2, "{options:?}: {starts:?}");
    }
}

/// Number of groups that contain directories of a source tree.
fn groups_of_a_tree(directories: Directories) -> usize {
    let mut fs = made(&Options::Ext(Ext { directories, ..Ext::default() }));
    let mut image = Image::new(&mut fs);
    image.mkdir("/linux").unwrap();
    for i in 0..40 {
        image.mkdir(&format!("/linux/{i}")).unwrap();
        for j in 0..10 {
            image.file(&format!("/linux/{i}/{j}"), 12 << 10).unwrap();
        }
    }
    let mut groups: Vec<u64> = (0..40)
        .map(|i| {
            let inode = fs.lookup(&format!("/linux/{i}/0"), &mut Touched::default()).unwrap();
            runs(&fs, inode)[0].2.unwrap() / u64::from(GROUP)
        })
        .collect();
    groups.sort_unstable();
    groups.dedup();
    fs.check().unwrap();
    groups.len()
}

#[test]
fn the_old_policy_spreads_a_tree_and_orlov_keeps_it_together() {
    assert_eq!(groups_of_a_tree(Directories::Old), 40);
    let orlov = groups_of_a_tree(Directories::Orlov);
    assert!(orlov <= 4, "{orlov}");
}

#[test]
fn orlov_spreads_top_level_directories() {
    let mut fs = made(&Options::ext2());
    let mut image = Image::new(&mut fs);
    let mut blocks: Vec<u64> = (0..20)
        .map(|i| image.mkdir(&format!("/user{i}")).unwrap())
        .collect::<Vec<_>>()
        .into_iter()
        .map(|inode| fs.inode_block(inode).0 / u64::from(GROUP))
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 20);
}

#[test]
fn placed_trees_lie_at_their_place() {
    for options in [Options::ext2(), Options::ext3(), Options::ext4(), Options::xfs_like()] {
        let mut fs = FileSystem::new(&options, Block(1000), 200 * GB / BLOCK_BYTES).unwrap();
        let mut image = Image::new(&mut fs);
        for (i, at) in [10 * GB, 60 * GB, 110 * GB].into_iter().enumerate() {
            image.place(Some(at)).unwrap();
            image.mkdir(&format!("/{i}")).unwrap();
            let mut found = Vec::new();
            for bytes in [8 << 10, 1 << 20] {
                let file = image.file(&format!("/{i}/{bytes}"), bytes).unwrap();
                let pages = (bytes / BLOCK_BYTES) as u32;
                image.fs().map(file, 0, pages, &mut found, &mut Touched::default()).unwrap();
            }
            for run in found {
                let off = run.block.unwrap().0 * BLOCK_BYTES;
                assert!((at..at + GB / 4).contains(&off), "{options:?}: {off} for {at}");
            }
        }
        assert!(matches!(image.place(Some(300 * GB)), Err(ImageError::Outside { .. })));
        assert!(matches!(image.file("/none/x", 1), Err(ImageError::Refused { .. })));
        fs.check().unwrap();
    }
}

#[test]
fn position_of_the_journal() {
    let at = |options: &Options| made(options).journal_area().map(|area| (area.start.0, area.blocks));
    assert_eq!(at(&Options::ext2()), None);
    let (start, blocks) = at(&Options::ext3()).unwrap();
    assert!(start < 1000 && blocks == 8192, "{start}");
    let half = 20 * GB / BLOCK_BYTES;
    for options in [Options::ext4(), Options::xfs_like()] {
        let (start, _) = at(&options).unwrap();
        assert!((half..half + u64::from(3 * GROUP)).contains(&start), "{start}");
    }
}

/// A new file of 4 KB changes the blocks that the kernel changes.
#[test]
fn metadata_changes_of_a_new_file() {
    let mut fs = made(&Options::ext2());
    let mut touched = Touched::default();
    fs.create("/first", &mut touched).unwrap();
    touched.clear();
    let file = fs.create("/second", &mut touched).unwrap();
    fs.set_size(file, 4096, &mut touched).unwrap();
    fs.allocate(file, 0, 1, 0, &mut Vec::new(), &mut touched).unwrap();
    // Inode bitmap, descriptors, inode table (root and file share a block), the root's page, block bitmap.
    assert_eq!(touched.dirties.len(), 5, "{touched:?}");
    assert!(touched.dirties.iter().all(|block| touched.reads.contains(block)), "{touched:?}");
}

#[test]
fn reads_of_a_search_in_a_large_directory() {
    let reads = |options: &Options| {
        let mut fs = made(options);
        let mut image = Image::new(&mut fs);
        for i in 0..20_000 {
            image.file(&format!("/file-{i}"), 0).unwrap();
        }
        fs.check().unwrap();
        let mut touched = Touched::default();
        fs.lookup("/file-0", &mut touched).unwrap();
        touched.clear();
        assert_eq!(fs.lookup("/absent", &mut touched), Err(Errno::NotFound));
        touched.reads.len()
    };
    // 20,000 entries of 20 bytes: 98 full blocks, and the root's inode.
    assert_eq!(reads(&Options::ext2()), 1 + 98);
    assert_eq!(reads(&Options::ext4()), 1 + 2);
    assert_eq!(reads(&Options::xfs_like()), 1 + 2);
}

#[test]
fn order_of_listing() {
    let list = |options: &Options, files| {
        let mut fs = made(options);
        let mut image = Image::new(&mut fs);
        for i in 0..files {
            image.file(&format!("/{i:04}"), 0).unwrap();
        }
        fs.readdir("/", &mut Touched::default()).unwrap()
    };
    let names = |entries: Vec<Entry>| entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>();
    // With the second number, all entries fit in one block.
    for files in [1000, 40] {
        let plain = names(list(&Options::ext2(), files));
        assert!(plain.is_sorted());
        let mut hashed = names(list(&Options::ext4(), files));
        assert!(!hashed.is_sorted());
        hashed.sort();
        assert_eq!(hashed, plain);
        assert!(names(list(&Options::xfs_like(), files)).is_sorted());
    }
}

#[test]
fn inode_read_ahead_stops_at_the_last_inode() {
    let mut fs = FileSystem::new(&Options::ext4(), Block(1000), 4 * GB / BLOCK_BYTES).unwrap();
    let mut image = Image::new(&mut fs);
    let files: Vec<_> = (0..1000).map(|i| image.file(&format!("/f{i}"), 0).unwrap()).collect();
    let (first, last) = (fs.inode_block(files[0]), fs.inode_block(files[999]));
    let window = fs.read_beside(first);
    assert!(window.contains(&first.0) && window.end - window.start <= 32, "{window:?}");
    assert_eq!((window.end - 1000) % 32, 0, "{window:?} ends at a multiple");
    let window = fs.read_beside(last);
    assert_eq!(window.end, last.0 + 1, "no read beyond the last inode");
    let data = Block(1000 + 600_000);
    assert_eq!(fs.read_beside(data), data.0..data.0 + 1, "no inode table");
    let fs = FileSystem::new(&Options::ext3(), Block(0), 4 * GB / BLOCK_BYTES).unwrap();
    let block = fs.inode_block(Inode(12));
    assert_eq!(fs.read_beside(block), block.0..block.0 + 1, "ext3 reads one");
}

/// `find_group_other`: among groups without blocks the directory's own comes last.
#[test]
fn on_a_full_disk_a_file_leaves_its_directory_group() {
    let mut fs = FileSystem::new(&Options::ext2(), Block(0), 3 * u64::from(GROUP)).unwrap();
    let mut touched = Touched::default();
    let large = fs.create("/large", &mut touched).unwrap();
    let full = fs.allocate(large, 0, 4 * GROUP, 0, &mut Vec::new(), &mut touched);
    assert_eq!((full, fs.free_blocks()), (Err(Errno::NoSpace), 0));
    let file = fs.create("/file", &mut touched).unwrap();
    let first_of_group = fs.inode_block(file).0 - fs.inode_block(file).0 % u64::from(GROUP);
    assert_eq!(first_of_group, u64::from(GROUP));
}

#[test]
fn find_has_no_side_effects() {
    let read = |found: bool| {
        let mut fs = made(&Options::ext2());
        for n in 0..1000 {
            fs.create(&format!("/file-{n:04}"), &mut Touched::default()).unwrap();
        }
        assert_eq!(fs.find("/file-0500/x"), Err(Errno::NotADirectory));
        assert_eq!(fs.find("/file-1000"), Err(Errno::NotFound));
        let mut touched = Touched::default();
        let inode = fs.lookup("/file-0001", &mut touched).unwrap();
        if found {
            assert_eq!(fs.find("/file-0001"), Ok(inode));
            fs.find("/file-0999").unwrap();
        }
        touched.clear();
        fs.lookup("/file-0999", &mut touched).unwrap();
        touched.reads
    };
    assert_eq!(read(true), read(false));
    assert!(read(true).len() > 3);
}
