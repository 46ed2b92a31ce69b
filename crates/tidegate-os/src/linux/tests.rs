//! Tests of the Linux calls on the real system: loopback, temporary directories, /proc.

mod files;
mod links;
mod sockets;
mod steer;

use std::path::Path;
use std::time::Duration;

use super::{affinity, identity, inherit, open, process, time, title};
use crate::types::{ListenAddr, ListenOptions};

#[test]
fn a_thread_can_be_pinned_and_lowered() {
    std::thread::spawn(|| {
        let allowed = affinity::thread_cpus().unwrap();
        let cpu = allowed[0];
        let mut mask = vec![0_u64; cpu / 64 + 1];
        mask[cpu / 64] = 1 << (cpu % 64);
        affinity::pin_thread(&mask).unwrap();
        assert_eq!(affinity::thread_cpus().unwrap(), [cpu]);
        assert!(affinity::pin_thread(&[0]).is_err());
        // Fields of proc(5), counted behind the name.
        let field = |number: usize| {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields = stat.rsplit_once(')').unwrap().1;
            fields.split_ascii_whitespace().nth(number - 3).unwrap().parse::<i32>().unwrap()
        };
        let nice = field(19);
        affinity::use_batch_policy().unwrap();
        affinity::lower_priority(3).unwrap();
        assert_eq!((field(41), field(19)), (3, (nice + 3).min(19)), "SCHED_BATCH, and less urgent");
    })
    .join()
    .unwrap();
    assert!(affinity::cpu_count_online() >= 1);
}

/// Repeats a lookup of a name until it has a result. The kernel may break one off while others rename or mount, as the test
/// beside this one does; and it may forget a name when memory is short, which a lookup on the disk mends.
fn undisturbed<T>(name: &Path, look: impl Fn(&Path) -> Option<T>) -> T {
    let lookups = std::iter::repeat_with(|| look(name)).inspect(|_| {
        std::thread::yield_now();
        let _ = std::fs::metadata(name);
    });
    lookups.take(10_000).flatten().next().expect("one of 10 000 lookups is not disturbed")
}

#[test]
fn names_are_remembered_after_a_lookup() {
    let directory = tempfile::tempdir().unwrap();
    let (known, unknown) = (directory.path().join("known"), directory.path().join("unknown"));
    std::fs::write(&known, "").unwrap();
    undisturbed(&known, |name| open::is_name_cached(name).then_some(()));
    assert!(!open::is_name_cached(&unknown), "not looked up yet");
    assert!(open::is_name_cached(Path::new("not\0a name")));
    assert!(!open::is_name_cached(&directory.path().join("another")), "never looked up");
}

#[test]
fn a_lookup_that_may_not_wait_has_a_result_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    std::fs::write(&file, "text").unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    let find = |path: &Path| open::stat_if_cached(path, 0);
    let found = undisturbed(&link, find);
    assert_eq!(found.unwrap(), open::stat_own(&file, 0).unwrap());
    assert!(find(&directory.path().join("never looked up")).is_none());
    let missing = undisturbed(Path::new(""), find).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn users_and_groups_are_found_by_name() {
    assert_eq!(identity::lookup_user("root").unwrap(), Some((0, 0)));
    assert_eq!(identity::lookup_group("root").unwrap(), Some(0));
    assert_eq!(identity::lookup_user("no such user").unwrap(), None);
    assert_eq!(identity::lookup_group("no such group").unwrap(), None);
    let root = identity::lookup_credentials("root", None).unwrap();
    assert_eq!((root.uid, root.gid), (0, 0));
    let error = identity::lookup_credentials("no such user", None).unwrap_err();
    assert_eq!(error.to_string(), "no user named \"no such user\"");
}

#[test]
fn clocks_agree() {
    let coarse = time::clock_monotonic_coarse();
    let exact = time::clock_monotonic();
    assert!(coarse <= exact);
    let system = std::time::SystemTime::now();
    let since = system.duration_since(std::time::UNIX_EPOCH).unwrap();
    // Coarse time is at most a timer tick behind; a day is beyond any doubt.
    assert!(since.abs_diff(time::clock_realtime_coarse()) < Duration::from_secs(86_400));
    assert!(time::local_utc_offset(0).unsigned_abs() <= 15 * 3600);
}

#[test]
fn processor_time_of_a_thread_grows_with_its_work_alone() {
    let cpu = || time::clock_thread_cpu().unwrap();
    let before = cpu();
    while cpu() < before + Duration::from_millis(2) {}
    // Another clock measures the wait, and its rate may differ a little.
    let (wait, waiting) = (Duration::from_millis(20), cpu());
    let (_sender, nothing) = std::sync::mpsc::channel::<()>();
    assert!(nothing.recv_timeout(wait).is_err());
    let used = cpu();
    assert!(used - waiting < wait / 2, "{:?}", used - waiting);
    assert!(time::clock_process_cpu().unwrap() >= used - before);
}

#[test]
fn random_bytes_differ() {
    let (mut one, mut two) = ([0; 300], [0; 300]);
    time::random_bytes(&mut one).unwrap();
    time::random_bytes(&mut two).unwrap();
    assert_ne!(one, two);
}

#[test]
fn threads_of_this_process_are_counted() {
    assert!(process::thread_count().unwrap() >= 1);
}

#[test]
fn proc_stat_is_parsed_behind_a_strange_name() {
    let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 110 25 0 0 20 0 1 0 9 8 7 6 5 4 3 2 1 0 0 0 0 \
                0 0 0 0 17 1 0 0 0 0 0 0 0 1000 1100 1100 1900 0";
    let area = title::parse_area(stat).unwrap();
    assert_eq!((area.arguments_start, area.arguments_end), (1000, 1100));
    assert_eq!((area.environment_start, area.environment_end), (1100, 1900));
    assert!(title::parse_area("").is_none());
}

#[test]
fn lists_of_inherited_sockets() {
    #[track_caller]
    fn check(list: &str, expected: Option<&[i32]>) {
        assert_eq!(inherit::parse_list(list).ok().as_deref(), expected, "{list}");
    }
    check("", Some(&[]));
    check("3;4;", Some(&[3, 4]));
    check("17", Some(&[17]));
    check("3;3;", None);
    check("2;", None);
    check("-1;", None);
    check("3;x;", None);
    check("99999999999;", None);
    assert_eq!(inherit::format_list(&[3, 44]), "3;44;");
}

#[test]
fn only_inherited_sockets_are_adopted() {
    use std::os::fd::AsRawFd;
    // Descriptors of this process have an owner, which their close-on-exec flag shows.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(inherit::adopt_socket(listener.as_raw_fd()).is_err());
    assert!(inherit::adopt_socket(0).is_err());
    assert!(inherit::adopt_socket(1_000_000).is_err());
    assert!(inherit::env_inherited_listeners("TIDEGATE_TEST_ABSENT").unwrap().is_empty());
}

#[test]
fn signals_need_a_process() {
    assert!(process::exists(std::process::id()));
    assert!(!process::exists(0));
    assert!(process::kill(0, process::Signal::Hangup).is_err());
    assert!(process::kill(u32::MAX, process::Signal::Hangup).is_err());
    assert!(process::nofile_limit() > 3);
}

#[test]
fn pages_are_small_once_asked() {
    process::use_small_pages().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("THP_enabled:\t0"), "{status}");
}

#[test]
fn a_socket_of_multipath_tcp_is_one() {
    // A kernel without it has no such protocol, and says so.
    let options = ListenOptions { multipath: true, ..ListenOptions::default() };
    let any = ListenAddr::Inet((std::net::Ipv4Addr::LOCALHOST, 0).into());
    match super::listen::listen_socket(&any, &options) {
        Ok(socket) => {
            let protocol = rustix::net::sockopt::socket_protocol(&socket).expect("a protocol");
            assert_eq!(protocol, Some(rustix::net::ipproto::MPTCP));
        }
        Err(error) => assert!(matches!(error.raw_os_error(), Some(92 | 93)), "{error}"),
    }
}
