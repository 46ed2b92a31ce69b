//! Tests of calls that change the whole process: each runs in a process of its own, started by
//! `spawn`, with one thread. (The usual test harness has several.)

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitStatus;

use tidegate_os::{
    ListenAddr, ListenOptions, affinity, daemon, identity, inherit, listen, process, socket, title,
};

/// The descriptor through which a started process reports.
const REPORT: i32 = 7;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("part") => part(&std::env::args().nth(2).unwrap_or_default()),
        // Test runners request the list.
        Some("--list") => {}
        _ => {
            signals_and_exit_codes();
            listeners_are_inherited();
            a_failed_start_is_reported();
            titles_appear();
            daemons_have_their_own_session();
            forks_have_an_environment_of_their_own();
            limits_and_privileges();
            println!("process: 7 tests passed");
        }
    }
}

fn part(name: &str) {
    match name {
        "exit" => std::process::exit(7),
        "wait" => drop(socket::read(report_socket(), &mut [0; 1])),
        "listeners" => inherited_part(),
        "title" => title_part(),
        "daemon" => daemon_part(),
        "fork" => fork_part(),
        "limits" => limits_part(),
        _ => std::process::exit(99),
    }
}

fn start(part: &str, env: &[(&str, &str)], more: &[(&OwnedFd, i32)]) -> (u32, OwnedFd) {
    let (ours, theirs) = socket::socketpair().unwrap();
    let exe = std::env::current_exe().unwrap();
    let env: Vec<(OsString, OsString)> =
        env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut fds = vec![(theirs.as_fd(), REPORT)];
    fds.extend(more.iter().map(|(fd, target)| (fd.as_fd(), *target)));
    let args = ["part".into(), part.into()];
    let child = process::spawn(exe.as_os_str(), exe.as_os_str(), &args, &env, &fds).unwrap();
    (child.pid, ours)
}

fn report_socket() -> OwnedFd {
    inherit::adopt_socket(REPORT).unwrap()
}

fn report(text: &str) {
    socket::write(report_socket(), text.as_bytes()).unwrap();
}

fn read_report(from: &OwnedFd) -> String {
    let mut text = [0; 4096];
    let length = socket::read(from, &mut text).unwrap();
    String::from_utf8_lossy(&text[..length]).into_owned()
}

/// Waits (in the kernel, for the close of the report socket) for the end of a child.
fn collect(pid: u32, from: OwnedFd) -> ExitStatus {
    while socket::read(&from, &mut [0; 64]).is_ok_and(|length| length > 0) {}
    loop {
        if let Some((ended, status)) = process::wait_any_nohang() {
            assert_eq!(ended, pid);
            return status;
        }
        std::thread::yield_now();
    }
}

fn signals_and_exit_codes() {
    assert!(process::wait_any_nohang().is_none());
    let (pid, from) = start("exit", &[], &[]);
    assert_eq!(collect(pid, from).code(), Some(7));

    let (pid, from) = start("wait", &[], &[]);
    assert!(process::exists(pid));
    process::kill(pid, process::Signal::Terminate).unwrap();
    let status = collect(pid, from);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(!process::exists(pid));
}

/// Numbers that cross: each socket's own number is the target of another one.
fn listeners_are_inherited() {
    let any = ListenAddr::Inet("127.0.0.1:0".parse().unwrap());
    let one = listen::listen_socket(&any, &ListenOptions::default()).unwrap();
    let two = listen::listen_socket(&any, &ListenOptions::default()).unwrap();
    let (first, second) = (two.as_raw_fd(), one.as_raw_fd());
    let list = inherit::format_list(&[first, second]);
    let (pid, from) = start("listeners", &[("SOCKETS", &list)], &[(&one, first), (&two, second)]);
    let expected = format!(
        "{:?} {:?} SOCKETS",
        socket::local_addr(&one).unwrap(),
        socket::local_addr(&two).unwrap()
    );
    assert_eq!(read_report(&from), expected);
    assert!(collect(pid, from).success());
}

fn inherited_part() {
    let sockets = inherit::env_inherited_listeners("SOCKETS").unwrap();
    assert!(inherit::env_inherited_listeners("SOCKETS").is_err());
    let addresses: Vec<String> = sockets
        .iter()
        .map(|fd| format!("{:?}", socket::local_addr(fd).unwrap()))
        .chain(std::env::vars().map(|(name, _)| name))
        .collect();
    report(&addresses.join(" "));
}

fn a_failed_start_is_reported() {
    let (one, _two) = socket::socketpair().unwrap();
    let absent = OsString::from("/nonexistent/program");
    for target in 3..20 {
        let error =
            process::spawn(&absent, &absent, &[], &[], &[(one.as_fd(), target)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    let (one, target) = (one.as_fd(), 9);
    assert!(process::spawn(&absent, &absent, &[], &[], &[(one, target), (one, target)]).is_err());
    assert!(process::spawn(&absent, &absent, &[], &[], &[(one, 2)]).is_err());
}

fn titles_appear() {
    let (pid, from) = start("title", &[("A", &"long ".repeat(50)), ("B", "kept")], &[]);
    let expected = "worker process is shutting down, which is quite a long title\nkept";
    assert_eq!(read_report(&from), expected);
    assert!(collect(pid, from).success());
}

fn title_part() {
    let before = title::short_name().unwrap();
    title::set_process_title(&"x".repeat(10_000));
    title::set_process_title("worker process is shutting down, which is quite a long title");
    let line = std::fs::read("/proc/self/cmdline").unwrap();
    let line = String::from_utf8_lossy(&line);
    assert_eq!(title::short_name().unwrap(), before);
    title::set_short_name("a-name-that-is-too-long");
    assert_eq!(title::short_name().unwrap(), "a-name-that-is-");
    report(&format!("{}\n{}", line.trim_end_matches('\0'), std::env::var("B").unwrap()));
}

fn daemons_have_their_own_session() {
    let (pid, from) = start("daemon", &[], &[]);
    let text = read_report(&from);
    let fields: Vec<&str> = text.split(' ').collect();
    let [daemon, session, input] = fields[..] else { panic!("{text}") };
    assert_ne!(daemon, pid.to_string());
    assert_eq!(daemon, session);
    assert_eq!(input, "/dev/null");
    assert!(collect(pid, from).success());
}

fn daemon_part() {
    let refused =
        std::thread::scope(|scope| scope.spawn(daemon::daemonize).join().unwrap().is_err());
    assert!(refused);
    // The thread may still be ending.
    while process::thread_count().unwrap() > 1 {
        std::thread::yield_now();
    }
    daemon::daemonize().unwrap();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3).unwrap();
    let input = std::fs::read_link("/proc/self/fd/0").unwrap();
    report(&format!("{} {session} {}", std::process::id(), input.display()));
}

fn forks_have_an_environment_of_their_own() {
    let (pid, from) = start("fork", &[("OLD", "x"), ("BOTH", "x")], &[]);
    // The forked process ends before the one that has forked it reports the rest.
    assert_eq!(read_report(&from), "BOTH=y, NEW=a=b; BOTH=x, OLD=x, code 3");
    assert!(collect(pid, from).success());
}

fn fork_part() {
    std::thread::scope(|scope| {
        let refused = || process::fork().is_err() && process::set_environment(&[]).is_err();
        assert!(scope.spawn(refused).join().unwrap());
    });
    // The thread may still be ending.
    while process::thread_count().unwrap() > 1 {
        std::thread::yield_now();
    }
    let shown = || {
        let all = std::env::vars().map(|(name, value)| format!("{name}={value}"));
        let mut all: Vec<_> = all.collect();
        all.sort();
        all.join(", ")
    };
    let (ours, theirs) = socket::socketpair().unwrap();
    let Some(pid) = process::fork().unwrap() else {
        let variable = |name: &str, value: &str| (name.into(), value.into());
        let wrong = [variable("", "x"), variable("A=B", "x"), variable("C", "\0")];
        let right = [variable("BOTH", "y"), variable("NEW", "a=b")];
        process::set_environment(&[&wrong[..], &right].concat()).unwrap();
        socket::write(&theirs, shown().as_bytes()).unwrap();
        std::process::exit(3);
    };
    drop(theirs);
    let child = read_report(&ours);
    let status = collect(pid, ours);
    report(&format!("{child}; {}, code {}", shown(), status.code().unwrap()));
}

fn limits_and_privileges() {
    let (pid, from) = start("limits", &[], &[]);
    assert_eq!(read_report(&from), "done");
    assert!(collect(pid, from).success());
}

fn limits_part() {
    process::ignore_sigpipe();
    process::set_nofile_limit(64).unwrap();
    assert_eq!(process::nofile_limit(), 64);
    process::set_core_limit(0).unwrap();
    process::set_priority(5).unwrap();
    process::umask(0o027);
    assert_eq!(process::umask(0o022), 0o027);
    assert!(affinity::cpu_count_online() > 0);
    let nobody = identity::lookup_credentials("nobody", Some("nogroup"))
        .or_else(|_| identity::lookup_credentials("nobody", None));
    if let (true, Ok(nobody)) = (identity::is_root(), nobody) {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _ = stopped.recv();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        identity::drop_privileges(&nobody, true).unwrap();
        drop(stop);
        // The change concerns all threads.
        let status = other.join().unwrap();
        let ids = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
        assert!(ids.split_ascii_whitespace().skip(1).all(|id| id == nobody.uid.to_string()));
        assert!(!identity::is_root());
        assert!(identity::drop_privileges(&nobody, false).is_err());
        // One capability is kept (CAP_NET_RAW is number 13), by this thread and those that it starts.
        let rights = |status: &str| {
            let line = status.lines().find(|line| line.starts_with("CapEff:")).unwrap();
            u64::from_str_radix(line[7..].trim(), 16).unwrap()
        };
        assert_eq!(rights(&status), 0);
        let look = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        assert_eq!(rights(&look()), 1 << 13);
        assert_eq!(rights(&std::thread::spawn(look).join().unwrap()), 1 << 13);
        process::set_dumpable(true).unwrap();
    }
    process::parent_death_signal().unwrap();
    report("done");
}
