//! Formats compared with a plain set of names.

use std::collections::BTreeSet;

use elevator::Random;

use super::*;

#[test]
fn every_format_keeps_every_name() {
    for format in [Format::Linear, Format::Htree, Format::XfsLike { inline: 156 }] {
        let mut random = Random::new(3);
        let mut directory = Directory::new(format);
        let mut slow = BTreeSet::new();
        let mut accesses = Vec::new();
        for _ in 0..30_000 {
            let number = random.below(8000);
            let name = format!("{number:0width$}", width = 1 + (number % 90) as usize);
            accesses.clear();
            let found = directory.look(&name, &mut accesses).is_some();
            assert_eq!(found, slow.contains(&name));
            if found && random.once_in(2) {
                directory.remove(&name, &mut accesses);
                slow.remove(&name);
            } else if !found {
                let before = directory.allocated().len();
                let growth = directory.growth(&name);
                directory.add(&name, Inode(number), false, &mut accesses);
                slow.insert(name);
                assert_eq!(directory.allocated().len(), before + growth.len(), "{format:?}");
            }
            let pages = directory.allocated();
            for step in &accesses {
                let (PageAccess::Read(page) | PageAccess::Change(page)) = step;
                assert!(pages.is_empty() || pages.contains(page), "{format:?}: {step:?}");
            }
        }
        assert!(directory.agrees());
        let listed: BTreeSet<String> =
            directory.list(&mut accesses).iter().map(|e| e.name.to_string()).collect();
        assert_eq!(listed, slow);
    }
}

#[test]
fn a_new_index_has_two_leaves() {
    let mut directory = Directory::new(Format::Htree);
    let mut number = 0;
    while directory.growth(&format!("{number:03}")).is_empty() {
        directory.add(&format!("{number:03}"), Inode(number), false, &mut Vec::new());
        number += 1;
    }
    let mut accesses = Vec::new();
    let growth = directory.growth(&format!("{number:03}"));
    directory.add(&format!("{number:03}"), Inode(number), false, &mut accesses);
    assert_eq!(growth, [1, 2]);
    assert_eq!(directory.allocated(), [0, 1, 2]);
    assert!(directory.agrees());
}
