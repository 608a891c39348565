//! Arms of a device that `dwell serve` serves: the policies of the library.

use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control::Client;
use control::protocol::State;

use super::Arms;
use crate::error::Error;
use crate::queue::QueueSettings;

/// A device or an array that `dwell serve` serves; each policy of the library can be an arm. An array's members switch together.
pub struct ServedArms {
    socket: PathBuf,
    client: Client,
    names: Vec<String>,
    before: String,
    /// The place in an array, if it is one member's socket.
    member: Option<u32>,
    /// The policy that this process set last.
    set: Option<String>,
}

impl ServedArms {
    /// Connects to a control socket; `queues` are the kernel queues in front of the device, or of the members of an array.
    ///
    /// # Errors
    /// No server listens there, or it serves a device of another size than these queues together.
    pub fn new(socket: &Path, queues: &[QueueSettings], names: Vec<String>) -> Result<Self, Error> {
        let failed = |error| Error::file(socket, error);
        let mut client = Client::connect(socket).map_err(failed)?;
        let State { scheduler: before, capacity_sectors, member, .. } = client.show().map_err(failed)?;
        let sectors = queues.iter().map(QueueSettings::sectors).sum::<Option<u64>>();
        if let Some(sectors) = sectors.filter(|&sectors| sectors != capacity_sectors) {
            let names: Vec<&str> = queues.iter().map(QueueSettings::name).collect();
            let have = if let [_] = queues { "has" } else { "together have" };
            if let Ok(array) = client.array() {
                let members: Vec<String> = array
                    .members
                    .iter()
                    .filter_map(|member| member.device.as_ref())
                    .map(|device| device.display().to_string())
                    .collect();
                return Err(Error::Usage(format!(
                    "{}: serves an array whose members are {}, and {} {have} another size; name the device of md or LVM on them, one of them, or \
                     the mount point of a btrfs on them",
                    socket.display(),
                    members.join(", "),
                    names.join(", ")
                )));
            }
            return Err(Error::Usage(format!(
                "{}: serves a device of {capacity_sectors} sectors, and {} {have} {sectors}; name the device that it serves",
                socket.display(),
                names.join(", ")
            )));
        }
        // Printed commands must work in any directory.
        let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
        Ok(Self { socket, client, names, before, member, set: None })
    }

    /// The place of the device in an array, if the socket is that of one member alone.
    pub const fn member(&self) -> Option<u32> {
        self.member
    }

    /// An error if there is a single scheduler.
    ///
    /// # Errors
    /// Nothing to choose from.
    pub fn with_a_choice(self) -> Result<Self, Error> {
        super::has_choice(&self.socket.display().to_string(), &self.names).map(|()| self)
    }

    /// [`Error::Gone`] if the connection ended, otherwise what `otherwise` returns.
    fn failed(&self, error: io::Error, otherwise: impl FnOnce(io::Error) -> Error) -> Error {
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => {
                Error::Gone(format!("the server at {}", self.socket.display()))
            }
            _ => otherwise(error),
        }
    }
}

impl Arms for ServedArms {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn current(&mut self) -> Result<String, Error> {
        let state = self.client.show();
        Ok(state.map_err(|error| self.failed(error, |error| Error::file(&self.socket, error)))?.scheduler)
    }

    fn switch(&mut self, arm: usize) -> Result<Duration, Error> {
        let from = Instant::now();
        let value = self.names[arm].clone();
        let refused = |source| Error::Rejected {
            what: self.socket.display().to_string(),
            value: value.clone(),
            source,
        };
        self.client.switch(&value, false).map_err(|error| self.failed(error, refused))?;
        self.set = Some(value);
        Ok(from.elapsed())
    }

    fn by_hand(&self, arm: &str) -> (String, Option<String>) {
        (format!("dwell ctl {} switch '{arm}'", self.socket.display()), None)
    }
}

/// Restores the previous policy unless another process has switched since or the server has ended.
impl Drop for ServedArms {
    fn drop(&mut self) {
        if let Some(set) = self.set.take()
            && set != self.before
            && self.client.show().is_ok_and(|state| state.scheduler == set)
        {
            let _ = self.client.switch(&self.before, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::Tree;

    /// A control socket that reports its scheduler and counts switches.
    fn served(socket: &Path) -> std::sync::Arc<std::sync::Mutex<(String, u32)>> {
        use std::io::{BufRead, BufReader, Write};
        let state = std::sync::Arc::new(std::sync::Mutex::new(("deadline".to_owned(), 0)));
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        let kept = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut out = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let request: serde_json::Value = serde_json::from_str(&line).unwrap();
                    let mut kept = kept.lock().unwrap();
                    let reply = if request["do"] == "switch" {
                        *kept = (request["scheduler"].as_str().unwrap().to_owned(), kept.1 + 1);
                        serde_json::json!({"switched": {"draining": false, "moved": 0, "in_flight": 0, "drained_for_ns": 0}})
                    } else if kept.0 == "none any more" {
                        return;
                    } else {
                        serde_json::json!({"state": {"time_ns": 0, "speed": 1, "scheduler": kept.0, "tunables": [], "items": [],
                            "backend": "", "capacity_sectors": 8, "depth": 1, "queued": 0, "in_flight": 0, "unfinished": 0,
                            "head_sector": 0, "dispatched": 0, "holds": 0, "salvaged": 0, "timed_out": 0, "operations": {}, "processes": {},
                            "clients": [], "lateness": control::protocol::TimesSummary::default(), "switches": 0, "last_switch": null,
                            "draining_ns": null, "log_lost": null, "scheduler_faults": 0, "last_scheduler_fault": null}})
                    };
                    writeln!(out, "{reply}").unwrap();
                }
            }
        });
        state
    }

    #[test]
    fn a_device_of_another_size_than_the_served_one_is_rejected() {
        let tree = Tree::new("not-served");
        let socket = tree.directory().join("control");
        let _state = served(&socket);
        let queue = tree.queue("loop1");
        let arms = || ServedArms::new(&socket, std::slice::from_ref(&queue), vec!["noop".to_owned()]);
        let size = |sectors: &str| fs::write(tree.block().join("loop1/size"), sectors).unwrap();
        size("8\n");
        let message = arms().unwrap().with_a_choice().err().unwrap().to_string();
        assert!(message.contains("control: only one scheduler to choose from: noop; "), "{message}");
        size("16\n");
        let message = arms().err().unwrap().to_string();
        assert!(
            message.ends_with(
                "control: serves a device of 8 sectors, and loop1 has 16; name the device that it serves"
            ),
            "{message}"
        );
    }

    /// A user pastes them in another directory, or later.
    #[test]
    fn printed_commands_have_the_absolute_path_of_the_socket() {
        let tree = Tree::new("served-relative");
        let socket = tree.directory().join("control");
        let _state = served(&socket);
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(socket.strip_prefix("/").unwrap());
        let arms = ServedArms::new(&relative, &[tree.queue("loop0")], vec!["noop".to_owned()]).unwrap();
        let printed = arms.by_hand("noop").0;
        assert!(printed.starts_with("dwell ctl /"), "{printed}");
    }

    #[test]
    fn the_members_of_a_served_array_are_one_device() {
        let tree = Tree::new("served-array");
        let socket = tree.directory().join("control");
        let state = served(&socket);
        let queues = ["loop0", "loop1"].map(|name| tree.queue(name));
        let size =
            |name: &str, sectors: &str| fs::write(tree.block().join(name).join("size"), sectors).unwrap();
        let arms = || ServedArms::new(&socket, &queues, vec!["noop".to_owned()]);
        size("loop0", "8\n");
        size("loop1", "8\n");
        let refused = arms().err().unwrap().to_string();
        let words = "serves a device of 8 sectors, and loop0, loop1 together have 16";
        assert!(refused.contains(words), "{refused}");
        ["loop0", "loop1"].iter().for_each(|name| size(name, "4\n"));
        arms().unwrap().switch(0).unwrap();
        // One switch by the array's socket, and one back at the end.
        assert_eq!(*state.lock().unwrap(), ("deadline".to_owned(), 2));
    }

    #[test]
    fn only_the_tuners_own_switch_of_a_served_device_is_reverted() {
        let tree = Tree::new("served");
        let socket = tree.directory().join("control");
        let state = served(&socket);
        let names = ["deadline", "noop", "cfq"].map(str::to_owned);
        let arms = || ServedArms::new(&socket, &[tree.queue("loop0")], names.to_vec()).unwrap();
        let now = || state.lock().unwrap().clone();
        // A tuner that has not switched restores nothing, although another process switched.
        let looking = arms();
        state.lock().unwrap().0 = "cfq".to_owned();
        drop(looking);
        assert_eq!(now(), ("cfq".to_owned(), 0));
        // Its own switch is reverted,
        let mut setting = arms();
        setting.switch(1).unwrap();
        drop(setting);
        assert_eq!(now(), ("cfq".to_owned(), 2));
        // but not another process's.
        let mut setting = arms();
        setting.switch(1).unwrap();
        state.lock().unwrap().0 = "deadline".to_owned();
        drop(setting);
        assert_eq!(now(), ("deadline".to_owned(), 3));
        // The server ended meanwhile.
        let mut looking = arms();
        state.lock().unwrap().0 = "none any more".to_owned();
        assert!(matches!(looking.current(), Err(Error::Gone(server)) if server.contains("control")));
    }
}
