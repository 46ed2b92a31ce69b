//! The main context: defaults, values, errors.

use super::*;
use crate::tests::Bench;

/// Checks a setting of the main context, as `show` formats it.
fn check(text: &str, show: fn(&MainSettings) -> String, expected: &str) {
    let bench = Bench::of_file(text);
    let dir = bench.dir.path().to_str().unwrap();
    assert_eq!(show(&bench.plan.main).replace(dir, "{dir}"), expected, "{text}");
}

#[test]
fn values_of_the_main_context() {
    type Show = fn(&MainSettings) -> String;
    let rows: &[(&str, Show, &str)] = &[
        ("", |m| m.daemon.to_string(), "true"),
        ("daemon off;", |m| m.daemon.to_string(), "false"),
        ("", |m| m.master_process.to_string(), "true"),
        ("master_process off;", |m| m.master_process.to_string(), "false"),
        ("", |m| format!("{:?}", m.worker_processes), "Number(1)"),
        ("worker_processes auto;", |m| format!("{:?}", m.worker_processes), "Auto"),
        ("worker_processes 1024;", |m| format!("{:?}", m.worker_processes), "Number(1024)"),
        ("", |m| format!("{:?}", m.worker_cpu_affinity), "None"),
        (
            "worker_cpu_affinity auto;",
            |m| format!("{:?}", m.worker_cpu_affinity),
            "Some(Auto(None))",
        ),
        (
            "worker_cpu_affinity auto 101;",
            |m| format!("{:?}", m.worker_cpu_affinity),
            "Some(Auto(Some(5)))",
        ),
        (
            "worker_cpu_affinity 01 10;",
            |m| format!("{:?}", m.worker_cpu_affinity),
            "Some(Masks([1, 2]))",
        ),
        ("worker_priority -5;", |m| format!("{:?}", m.worker_priority), "Some(-5)"),
        ("worker_rlimit_nofile 5;", |m| format!("{:?}", m.worker_rlimit_nofile), "Some(5)"),
        ("worker_rlimit_core 5m;", |m| format!("{:?}", m.worker_rlimit_core), "Some(5242880)"),
        ("worker_shutdown_timeout 5s;", |m| format!("{:?}", m.worker_shutdown_timeout), "Some(5s)"),
        ("worker_shutdown_timeout 0;", |m| format!("{:?}", m.worker_shutdown_timeout), "None"),
        ("working_directory a;", |m| format!("{:?}", m.working_directory), "Some(\"{dir}/a\")"),
        ("loop_watchdog 5ms;", |m| format!("{:?}", m.loop_watchdog), "Some(5ms)"),
        ("loop_watchdog off;", |m| format!("{:?}", m.loop_watchdog), "None"),
        ("loop_watchdog 0;", |m| format!("{:?}", m.loop_watchdog), "None"),
        ("user a;", |m| format!("{:?}", m.user), "Some((\"a\", None))"),
        ("user a b;", |m| format!("{:?}", m.user), "Some((\"a\", Some(\"b\")))"),
        ("", |m| m.pid.display().to_string(), "{dir}/logs/nginx.pid"),
        ("pid /run/a;", |m| m.pid.display().to_string(), "/run/a"),
        ("env A; env B=1;", |m| m.env.join(" "), "A B=1"),
        ("", |m| m.thread_pools.len().to_string(), "0"),
        (
            "thread_pool a threads=2; thread_pool b max_queue=0 threads=4096;",
            |m| {
                m.thread_pools
                    .iter()
                    .map(|p| format!("{} {} {};", p.name, p.threads, p.max_queue))
                    .collect()
            },
            "a 2 65536;b 4096 0;",
        ),
        ("", |m| m.worker_connections.to_string(), "512"),
        (
            "",
            |m| format!("{} {:?} {}", m.accept_mutex, m.accept_mutex_delay, m.multi_accept),
            "false 500ms false",
        ),
        ("", |m| m.machine.host_name.clone(), "bench"),
    ];
    for (text, show, expected) in rows {
        check(text, *show, expected);
    }
}

#[test]
fn errors_of_the_main_context() {
    let table = [
        ("daemon on; daemon off;", "\"daemon\" directive is duplicate"),
        ("worker_processes 0;", "value must be between 1 and 1024"),
        ("worker_processes 1025;", "value must be between 1 and 1024"),
        ("worker_processes some;", "\"worker_processes\" directive invalid value"),
        ("worker_cpu_affinity 012;", "invalid character \"2\" in \"worker_cpu_affinity\""),
        ("worker_cpu_affinity auto axb;", "invalid character \"b\" in \"worker_cpu_affinity\""),
        (
            "worker_cpu_affinity auto 1 1;",
            "invalid number of arguments in \"worker_cpu_affinity\" directive",
        ),
        ("worker_priority x;", "\"worker_priority\" directive invalid value"),
        ("thread_pool a;", "invalid number of arguments in \"thread_pool\" directive"),
        ("thread_pool a max_queue=5;", "\"thread_pool\" must have \"threads\" parameter"),
        ("thread_pool a threads=0;", "invalid threads value \"threads=0\""),
        ("thread_pool a threads=4097;", "invalid threads value \"threads=4097\""),
        ("thread_pool a threads=1 max_queue=x;", "invalid max_queue value \"max_queue=x\""),
        ("thread_pool a threads=1 odd=1;", "invalid parameter \"odd=1\""),
        ("thread_pool a threads=1; thread_pool a threads=2;", "duplicate thread pool \"a\""),
        ("worker_connections 5;", "\"worker_connections\" directive is not allowed here"),
    ];
    let found = table.map(|(text, _)| (text, Bench::errors_of_file(text).join("; ")));
    assert_eq!(found, table.map(|(text, expected)| (text, expected.to_owned())));
}
