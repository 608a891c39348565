//! Widely used NBD clients. A test prints SKIPPED where its client is not installed.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use common::{Directory, Random, Served, have, run, try_run};

fn serve(directory: &Directory, arguments: &[&str]) -> (Served, String) {
    let socket = directory.join("sock");
    let address = format!("unix:{}", socket.display());
    let server = Served::start(&[&["--nbd", &address], arguments].concat());
    (server, format!("nbd+unix:///?socket={}", socket.display()))
}

fn random_file(directory: &Directory, bytes: usize) -> PathBuf {
    let mut random = Random(0xda7a);
    let data: Vec<u8> = (0..bytes / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let path = directory.join("random");
    fs::write(&path, data).unwrap();
    path
}

#[test]
fn nbdinfo_lists_the_features_of_the_server() {
    if !have("nbdinfo") {
        return;
    }
    let directory = Directory::in_memory();
    let (server, uri) = serve(&directory, &["--memory", "1G"]);
    let info = run("nbdinfo", &[&uri]);
    for line in [
        "export-size: 1073741824",
        "base:allocation",
        "can_multi_conn: true",
        "can_fua: true",
        "can_trim: true",
        "can_zero: true",
        "can_flush: true",
        "using structured packets",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(line), "{line} is missing in {info}");
    }
    assert!(run("nbdinfo", &["--list", &uri]).contains("export-size"));
    assert!(run("nbdinfo", &["--map", &uri]).contains("hole,zero"));
    server.stop();
}

#[test]
fn nbdcopy_copies_to_the_server_and_back() {
    if !have("nbdcopy") {
        return;
    }
    for arguments in [["--memory", "64M"], ["--file", "disk"]] {
        let directory = Directory::on_disk();
        let file = directory.join("disk").to_string_lossy().into_owned();
        let arguments = if arguments[0] == "--file" {
            vec!["--file", &file, "--size", "64M"]
        } else {
            arguments.to_vec()
        };
        let (server, uri) = serve(&directory, &arguments);
        let (there, back) = (random_file(&directory, 64 << 20), directory.join("back"));
        run("nbdcopy", &[&there.to_string_lossy(), &uri]);
        run("nbdcopy", &[&uri, &back.to_string_lossy()]);
        assert!(fs::read(&there).unwrap() == fs::read(&back).unwrap(), "the copies differ");
        server.stop();
    }
}

#[test]
fn a_flush_of_nbdsh_covers_writes_on_another_connection() {
    if !have("nbdsh") {
        return;
    }
    let directory = Directory::in_memory();
    let (server, uri) = serve(&directory, &["--memory", "64M"]);
    let script = format!(
        "a = nbd.NBD(); a.connect_uri('{uri}'); b = nbd.NBD(); b.connect_uri('{uri}')\n\
         a.pwrite(b'x' * 4096, 8192); b.flush(); assert b.pread(4096, 8192) == b'x' * 4096\n\
         a.pwrite(b'y' * 4096, 0, nbd.CMD_FLAG_FUA); assert b.pread(4096, 0) == b'y' * 4096\n\
         a.zero(4096, 0); assert b.pread(4096, 0) == bytes(4096)\n\
         a.zero(8 << 20, 1 << 20, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)\n\
         a.trim(4096, 8192, nbd.CMD_FLAG_FUA)\n\
         data = bytes(range(256)) * (33 << 12); big = data[:32 << 20]\n\
         a.pwrite(big, 16 << 20); assert b.pread(32 << 20, 16 << 20) == big\n"
    );
    run("nbdsh", &["-c", &script]);
    server.stop();
}

#[test]
fn qemu_reads_writes_converts_and_compares() {
    if !have("qemu-io") || !have("qemu-img") {
        return;
    }
    let directory = Directory::in_memory();
    let (server, uri) = serve(&directory, &["--memory", "64M"]);
    let commands = [
        "write -P 5 1M 64k",
        "read -P 5 1M 64k",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "write -f -P 7 3M 4k",
        "discard 2M 1M",
        "flush",
        "aio_write -P 9 4M 1M",
        "aio_flush",
        "read -P 9 4M 1M",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let text = run("qemu-io", &arguments);
    assert!(!text.contains("Pattern verification failed") && !text.contains("rror"), "{text}");
    let file = random_file(&directory, 64 << 20);
    let file = file.to_string_lossy();
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &file, &uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &file, &uri]);
    server.stop();
}

/// QEMU's storage daemon with an open file. Dropping it ends the daemon.
struct Daemon(Child);

impl Daemon {
    fn over(directory: &Directory, file: &str, writable: bool) -> Self {
        let socket = directory.join("qemu");
        let _ = fs::remove_file(&socket);
        let mut command = Command::new("qemu-storage-daemon");
        command.args(["--blockdev", &format!("driver=file,node-name=disk,filename={file}")]);
        command.args(["--nbd-server", &format!("addr.type=unix,addr.path={}", socket.display())]);
        let writable = if writable { "on" } else { "off" };
        command.args(["--export", &format!("type=nbd,id=export,node-name=disk,writable={writable}")]);
        let daemon = Self(command.spawn().unwrap());
        let uri = format!("nbd+unix:///disk?socket={}", socket.display());
        let serves = |_| {
            std::thread::sleep(Duration::from_millis(50));
            try_run("qemu-img", &["info", &uri]).0
        };
        assert!((0..200).any(serves), "the daemon serves");
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_is_never_open_for_writing_in_the_server_and_in_qemu() {
    if !["qemu-io", "qemu-img", "qemu-storage-daemon"].into_iter().all(have) {
        return;
    }
    let directory = Directory::on_disk();
    let file = directory.join("disk").to_string_lossy().into_owned();
    let write = ["-f", "raw", "-c", "write 0 4k", &file];
    let (server, _) = serve(&directory, &["--file", &file, "--size", "64M"]);
    assert!(!try_run("qemu-io", &write).0, "the server has the file");
    server.stop();
    run("qemu-io", &write);
    let served = || {
        Served::try_start(&["--file", &file, "--nbd", &format!("unix:{}", directory.join("sock").display())])
    };
    let writing = Daemon::over(&directory, &file, true);
    assert!(served().is_none(), "QEMU writes to the file");
    drop(writing);
    let _reading = Daemon::over(&directory, &file, false);
    served().expect("a reading QEMU permits writers").stop();
}

#[test]
fn fio_verifies_through_its_nbd_engine_with_many_connections() {
    if !have("fio") || !try_run("fio", &["--enghelp=nbd"]).0 {
        return eprintln!("SKIPPED: fio has no nbd engine here");
    }
    let directory = Directory::in_memory();
    for scheduler in ["noop", "deadline", "stream(deadline)", "bfq", "kyber"] {
        let (server, uri) = serve(&directory, &["--memory", "64M", "--scheduler", scheduler]);
        let uri = format!("--uri={uri}");
        let job = ["--name=v", "--ioengine=nbd", "--rw=randrw", "--bsrange=512-128k", "--iodepth=16"];
        let verify =
            ["--numjobs=3", "--offset_increment=16M", "--size=16M", "--verify=crc32c", "--do_verify=1"];
        run("fio", &[&job[..], &verify, &[&uri]].concat());
        let report = server.stop();
        assert!(report["state"]["operations"]["write"]["done"].as_u64().unwrap() > 0, "{scheduler}");
    }
}

#[test]
fn clients_that_begin_tls_are_served_and_others_are_refused() {
    if !have("nbdinfo") || !have("openssl") {
        return;
    }
    let directory = Directory::in_memory();
    let file = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let made = |arguments: &[&str]| run("openssl", arguments);
    made(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test authority",
        "-keyout",
        &file("ca-key.pem"),
        "-out",
        &file("ca-cert.pem"),
    ]);
    fs::write(file("extensions"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    for whose in ["server", "client"] {
        let (key, request) = (file(&format!("{whose}-key.pem")), file(&format!("{whose}.csr")));
        made(&[
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        let signed = file(&format!("{whose}-cert.pem"));
        let (authority, key) = (file("ca-cert.pem"), file("ca-key.pem"));
        made(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &authority,
            "-CAkey",
            &key,
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &file("extensions"),
            "-out",
            &signed,
        ]);
    }
    let port = 20_000 + std::process::id() % 20_000;
    let address = format!("tcp:127.0.0.1:{port}");
    let tls = directory.0.to_string_lossy().into_owned();
    let server = Served::start(&["--memory", "64M", "--nbd", &address, "--tls", &tls]);
    let encrypted = format!("nbds://localhost:{port}/?tls-certificates={tls}");
    let info = run("nbdinfo", &[&encrypted]);
    assert!(info.contains("with TLS"), "{info}");
    if have("nbdcopy") {
        let (there, back) = (random_file(&directory, 64 << 20), directory.join("back"));
        run("nbdcopy", &[&there.to_string_lossy(), &encrypted]);
        run("nbdcopy", &[&encrypted, &back.to_string_lossy()]);
        assert!(fs::read(&there).unwrap() == fs::read(&back).unwrap(), "the copies differ");
    }
    let (ok, text) = try_run("nbdinfo", &[&format!("nbd://localhost:{port}")]);
    assert!(!ok, "plain clients are refused: {text}");
    if have("nbdsh") {
        // Requests that were sent before the server stops are answered, also if the client reads later.
        let asked = "bufs = [nbd.Buffer(1 << 20) for n in range(32)]; [h.aio_pread(buf, 0) for buf in bufs]";
        let stopped =
            format!("import os, time; time.sleep(.5); os.kill({}, 15); time.sleep(.3)", server.pid());
        let answered = "while h.aio_in_flight() > 0: h.poll(-1)";
        let connected = format!("h.set_uri_allow_local_file(True); h.connect_uri('{encrypted}')");
        run("nbdsh", &["-c", &connected, "-c", asked, "-c", &stopped, "-c", answered]);
    }
    server.stop();
    let verifying = ["--memory", "64M", "--nbd", &address, "--tls", &tls, "--tls-verify-peer"];
    let server = Served::start(&verifying);
    assert!(
        run("nbdinfo", &[&encrypted]).contains("with TLS"),
        "the client has a certificate of the authority"
    );
    fs::remove_file(file("client-cert.pem")).unwrap();
    let (ok, text) = try_run("nbdinfo", &[&encrypted]);
    assert!(!ok, "clients without a certificate are refused: {text}");
    server.stop();
}
