//! Schedulers that a queue does not offer: the kernel module that adds one, or its successor.

use std::fs;
use std::path::Path;

/// Directories of modules below `/lib/modules/VERSION` in which schedulers are: the kernel's own, and those built for it.
const DIRECTORIES: [&str; 4] = ["kernel/block", "updates", "updates/dkms", "extra"];

/// Schedulers of the single-queue block layer, which Linux 5.0 removed, with their successors.
const REMOVED: [(&str, &str); 3] = [("cfq", "bfq"), ("deadline", "mq-deadline"), ("noop", "none")];

/// How to get a scheduler that a queue does not offer, as a part of a sentence. `root` is the system's root directory, `available` what the queue
/// offers.
pub fn how_to_get(root: &Path, scheduler: &str, available: &[String]) -> String {
    let version = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    let version = version.trim();
    let modules = root.join("lib/modules").join(version);
    if let Some(module) = module_of(&modules, scheduler) {
        return format!("'modprobe {module}' adds it");
    }
    if let Some((_, successor)) = REMOVED.iter().find(|(removed, _)| *removed == scheduler) {
        let is_available = available.iter().any(|name| name == successor);
        let module = module_of(&modules, successor).filter(|_| !is_available);
        let load = module.map(|module| format!(" ('modprobe {module}' adds it)")).unwrap_or_default();
        return format!("Linux 5.0 removed it; {successor} is its successor{load}");
    }
    format!("/lib/modules/{version} has no module for it")
}

/// The module of a scheduler, if it is in one of the directories.
fn module_of(modules: &Path, scheduler: &str) -> Option<String> {
    let candidates = match scheduler.starts_with("dwell-") {
        true => vec!["dwell-iosched".to_owned()],
        false => vec![scheduler.to_owned(), format!("{scheduler}-iosched")],
    };
    let entries = DIRECTORIES.iter().filter_map(|directory| fs::read_dir(modules.join(directory)).ok());
    entries.flatten().flatten().find_map(|entry| {
        // bfq.ko.xz
        let name = entry.file_name().to_string_lossy().split_once(".ko")?.0.replace('_', "-");
        candidates.contains(&name).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_comes_from_a_module_that_exists_or_has_a_successor() {
        let root = std::env::temp_dir().join(format!("dwell-modules-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let block = root.join("lib/modules/6.12.1/kernel/block");
        fs::create_dir_all(&block).expect("made");
        fs::create_dir_all(root.join("proc/sys/kernel")).expect("made");
        fs::write(root.join("proc/sys/kernel/osrelease"), "6.12.1\n").expect("written");
        let get = |scheduler: &str, available: &[&str]| {
            let available: Vec<String> = available.iter().map(|name| (*name).to_owned()).collect();
            how_to_get(&root, scheduler, &available)
        };
        assert_eq!(get("bfq", &[]), "/lib/modules/6.12.1 has no module for it");
        assert_eq!(get("cfq", &["none"]), "Linux 5.0 removed it; bfq is its successor");
        for module in ["bfq.ko.xz", "kyber-iosched.ko", "README"] {
            fs::write(block.join(module), "").expect("written");
        }
        assert_eq!(get("bfq", &["none"]), "'modprobe bfq' adds it");
        assert_eq!(get("kyber", &["none"]), "'modprobe kyber-iosched' adds it");
        assert_eq!(
            get("cfq", &["none"]),
            "Linux 5.0 removed it; bfq is its successor ('modprobe bfq' adds it)"
        );
        assert_eq!(get("cfq", &["none", "bfq"]), "Linux 5.0 removed it; bfq is its successor");
        assert_eq!(get("README", &[]), "/lib/modules/6.12.1 has no module for it");
        assert_eq!(get("dwell-stream", &[]), "/lib/modules/6.12.1 has no module for it");
        let dkms = root.join("lib/modules/6.12.1/updates/dkms");
        fs::create_dir_all(&dkms).expect("made");
        fs::write(dkms.join("dwell_iosched.ko"), "").expect("written");
        assert_eq!(get("dwell-stream", &[]), "'modprobe dwell-iosched' adds it");
        fs::remove_dir_all(root).expect("removed");
    }
}
