//! Containers: an OCI runtime (crun, runc, youki) installs the filter of the container's configuration and sends its listener to the socket at
//! `listenerPath`, with a description of the container.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::io::IoSliceMut;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{filter, takeover};

/// How long a runtime may take to send.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest description.
const LONGEST: usize = 1 << 20;

/// Descriptors in one message: the specification has one name, later versions may have more.
const DESCRIPTORS: usize = 8;

/// The name of the listener among the descriptors.
const LISTENER: &str = "seccompFd";

/// What the runtime sends: `ContainerProcessState` of the OCI runtime specification.
#[derive(Deserialize)]
struct ProcessState {
    #[serde(default)]
    fds: Vec<String>,
    state: State,
}

#[derive(Deserialize)]
struct State {
    id: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// A container whose calls wait for an agent.
#[derive(Debug)]
pub struct Container {
    /// The listener of its filter.
    pub listener: OwnedFd,
    /// The runtime's identifier.
    pub id: String,
    /// The annotations of its configuration.
    pub annotations: BTreeMap<String, String>,
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Receives a container from a runtime's connection.
///
/// # Errors
/// The connection ends early or is silent for ten seconds, the description is none, or has no listener.
pub fn receive(runtime: &UnixStream) -> io::Result<Container> {
    runtime.set_read_timeout(Some(PATIENCE))?;
    let (mut text, mut descriptors) = (Vec::new(), Vec::new());
    let described = loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut piece = vec![0; 64 << 10];
        let received =
            recvmsg(runtime, &mut [IoSliceMut::new(&mut piece)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let length = match received {
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            result => result?.bytes,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        text.extend(&piece[..length]);
        if length == 0 && text.is_empty() {
            return Err(invalid(
                "a runtime connected and sent nothing; it prints why it did not start the container",
            ));
        }
        match serde_json::from_slice::<ProcessState>(&text) {
            Ok(described) => break described,
            Err(error) if length == 0 || !error.is_eof() => {
                return Err(invalid(format!("not the state of a container: {error}")));
            }
            Err(_) if text.len() > LONGEST => return Err(invalid("a description of more than a mebibyte")),
            Err(_) => {}
        }
    };
    let at = described.fds.iter().position(|name| name == LISTENER).unwrap_or(0);
    let listener =
        descriptors.into_iter().nth(at).ok_or_else(|| invalid("no seccomp listener came with it"))?;
    if !takeover::is_listener(Path::new(&format!("/proc/self/fd/{}", listener.as_raw_fd()))) {
        return Err(invalid("the descriptor that came with it is no seccomp listener"));
    }
    let State { id, annotations } = described.state;
    Ok(Container { listener, id, annotations: annotations.unwrap_or_default() })
}

/// A seccomp profile for containers, as in podman's `--security-opt seccomp=FILE` and in `linux.seccomp` of an OCI configuration: the calls that
/// [`run`](crate::run) intercepts are sent to a listener at that path. All other calls are allowed. `for_runc` leaves out `write`: runc rejects a
/// profile with it, as it writes to a pipe itself after it installed the filter.
pub fn profile(listener: &str, for_runc: bool) -> Value {
    let names = filter::CALLS.iter().map(filter::name);
    let names: Vec<_> = names.filter(|&name| !(for_runc && name == "write")).collect();
    let mut calls = vec![json!({ "names": names, "action": "SCMP_ACT_NOTIFY" })];
    for (call, argument, flags) in filter::FLAGGED {
        let name = filter::name(call);
        for flag in *flags {
            let changes =
                json!({ "index": argument, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ" });
            calls.push(json!({ "names": [name], "action": "SCMP_ACT_NOTIFY", "args": [changes] }));
        }
    }
    json!({ "defaultAction": "SCMP_ACT_ALLOW", "listenerPath": listener, "syscalls": calls })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn received(text: &str) -> String {
        let (mut runtime, own) = UnixStream::pair().unwrap();
        runtime.write_all(text.as_bytes()).unwrap();
        drop(runtime);
        receive(&own).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_container_is_rejected_with_the_reason() {
        assert!(received("").contains("sent nothing"));
        assert!(received("hello").contains("not the state of a container"));
        assert!(received(r#"{"state": {"id": "a"#).contains("EOF"));
        assert!(
            received(r#"{"fds": [], "state": {"id": "a", "annotations": null}}"#)
                .contains("no seccomp listener")
        );
    }

    #[test]
    fn a_profile_has_every_call_once_and_the_flags_of_opens() {
        let of_runc = profile("/run/listener", true);
        let profile = profile("/run/listener", false);
        assert_eq!(profile["listenerPath"], "/run/listener");
        let calls = profile["syscalls"].as_array().unwrap();
        let names: Vec<_> = calls[0]["names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(names.contains(&"write") && names.contains(&"fsync") && names.contains(&"renameat2"));
        assert!(calls[1..].iter().any(|call| call["names"][0] == "openat" && call["args"][0]["index"] == 2));
        let left: Vec<_> = names.into_iter().filter(|&name| name != "write").collect();
        assert_eq!(of_runc["syscalls"][0]["names"], json!(left));
    }
}
