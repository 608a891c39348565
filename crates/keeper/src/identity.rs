//! A drive's name in the database: the same for the same kind of drive in any machine.

use std::fs;
use std::path::Path;

/// Model and size of a device of `/sys/block` (or a tree like it): `WDC WD5000AAKS-00YGA0, 976773168 sectors, rotating`. What has
/// no model, as loop devices, is named by itself.
#[must_use]
pub fn drive(block: &Path, name: &str) -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(block.join(name).join(file)).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let model = read("device/model");
    let model = if model.is_empty() { name.to_owned() } else { model };
    let kind = if read("queue/rotational") == "1" { "rotating" } else { "not rotating" };
    format!("{model}, {} sectors, {kind}", read("size"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn a_model_is_a_name_and_a_loop_device_is_its_own() {
        let tree = Tree::new("identity");
        tree.queue("sda");
        let directory = tree.block().join("sda");
        fs::write(directory.join("size"), "976773168\n").unwrap();
        assert_eq!(drive(&tree.block(), "sda"), "sda, 976773168 sectors, not rotating");
        fs::create_dir(directory.join("device")).unwrap();
        fs::write(directory.join("device/model"), "WDC  WD5000AAKS \n").unwrap();
        fs::write(directory.join("queue/rotational"), "1\n").unwrap();
        assert_eq!(drive(&tree.block(), "sda"), "WDC WD5000AAKS, 976773168 sectors, rotating");
    }
}
