//! Workers, mail, pools, draining and signals.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::{on_loop, poll_once};
use crate::blocking::{JobError, Pool, QueueFull, Reply, ThreadPool, submit_replying};
use crate::clock::exact_now;
use crate::drain::Drain;
use crate::mail::{MailError, mailbox};
use crate::signal::{ProcessSignal, Signals};
use crate::sync::Notify;
use crate::worker::{RemoteError, TaskError};
use crate::{Worker, spawn_local};

#[test]
fn a_worker_runs_local_tasks_and_closures() {
    let (sender, receiver) = mpsc::channel();
    let stop = Arc::new(Notify::new());
    let inner = Arc::clone(&stop);
    let worker = Worker::run("worker-x", None, move |handle| async move {
        // Not Send: stays on this thread.
        let shared = std::rc::Rc::new(handle.name().to_string());
        let copy = std::rc::Rc::clone(&shared);
        let name = spawn_local(async move { copy.len() }).await.unwrap();
        assert_eq!(name, shared.len());
        inner.notified().await;
    })
    .unwrap();
    let remote = worker.remote();
    remote.run(|| panic!("this closure fails alone")).unwrap();
    remote
        .run(move || {
            spawn_local(async move {
                let name = std::thread::current().name().map(String::from);
                sender.send(name).unwrap();
            });
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("worker-x"));
    assert!(!worker.is_finished());
    stop.notify_one();
    worker.join().unwrap();
    assert_eq!(remote.run(|| ()), Err(RemoteError::Ended));
}

#[test]
fn a_worker_reports_panics_and_refused_masks() {
    let worker = Worker::run("fails", None, |_| async { panic!("as asked") }).unwrap();
    assert_eq!(worker.join().map_err(|panic| panic.to_string()), Err("as asked".to_string()));
    assert!(Worker::run("nowhere", Some(vec![0]), |_| async {}).is_err());
    let cpu = tidegate_os::affinity::thread_cpus().unwrap()[0];
    let mut mask = vec![0; cpu / 64 + 1];
    mask[cpu / 64] = 1 << (cpu % 64);
    let worker = Worker::run("pinned", Some(mask), move |_| async move {
        assert_eq!(tidegate_os::affinity::thread_cpus().unwrap(), [cpu]);
    });
    worker.unwrap().join().unwrap();
}

#[test]
fn tasks_return_how_they_ended() {
    on_loop(async {
        let failed = spawn_local(async { panic!("number {}", 7) });
        let Err(TaskError::Panicked(message)) = failed.await else { panic!("no panic") };
        assert_eq!(message, "number 7");
        let endless = spawn_local(std::future::pending::<()>());
        endless.abort();
        assert!(matches!(endless.await, Err(TaskError::Aborted)));
    });
}

#[test]
fn mail_is_bounded_and_wakes_the_loop() {
    let (sender, mut mail) = mailbox(2);
    let other = sender.clone();
    assert_eq!(sender.send(1), Ok(()));
    assert_eq!(sender.send(2), Ok(()));
    assert_eq!(sender.send(3), Err(MailError::Full(3)));
    assert_eq!(mail.try_receive(), Some(1));
    assert_eq!(mail.try_receive(), Some(2));
    assert_eq!(mail.try_receive(), None);
    drop(sender);
    on_loop(async move {
        assert!(poll_once(mail.receive()).await.is_none());
        let thread = std::thread::spawn(move || {
            other.send(4).unwrap();
            other
        });
        assert_eq!(mail.receive().await, Some(4));
        let other = thread.join().unwrap();
        drop(mail);
        assert!(other.is_closed());
        assert_eq!(other.send(5), Err(MailError::Closed(5)));
    });
}

#[test]
fn jobs_give_results_and_panics_stay_theirs() {
    on_loop(async {
        let pool = ThreadPool::new("pool", 2, 16).unwrap();
        let failed = pool.submit(|| -> u8 { panic!("broken job") }).unwrap();
        let named = pool.submit(|| std::thread::current().name().map(String::from)).unwrap();
        assert_eq!(failed.await, Err(JobError::Panicked("broken job".into())));
        assert!(named.await.unwrap().unwrap().starts_with("pool-"));
        for number in 0..100_u32 {
            assert_eq!(pool.submit(move || number + 1).unwrap().await, Ok(number + 1));
        }
    });
}

/// Submits a job that runs until it is released.
fn blocker(pool: &ThreadPool) -> (crate::blocking::JobHandle<()>, mpsc::Sender<()>) {
    let (release, wait) = mpsc::channel::<()>();
    let (begun, began) = mpsc::channel();
    let job = pool
        .submit(move || {
            begun.send(()).unwrap();
            let _ = wait.recv();
        })
        .unwrap();
    began.recv().unwrap();
    (job, release)
}

#[test]
fn a_full_queue_refuses_and_cancelled_jobs_make_room() {
    on_loop(async {
        let pool = ThreadPool::new("full", 1, 2).unwrap();
        let (running, release) = blocker(&pool);
        assert_eq!((pool.queued(), pool.running()), (0, 1));
        let kept = pool.submit(|| "kept").unwrap();
        let (ran, report) = mpsc::channel::<()>();
        let cancelled = pool.submit(move || ran.send(()).unwrap()).unwrap();
        assert_eq!(pool.submit(|| ()).unwrap_err(), QueueFull);
        assert_eq!((pool.queued(), pool.running()), (2, 1));
        drop(cancelled);
        let later = pool.submit(|| "later").unwrap();
        drop(release);
        running.await.unwrap();
        assert_eq!(kept.await, Ok("kept"));
        assert_eq!(later.await, Ok("later"));
        assert!(report.recv().is_err(), "the cancelled job ran");
    });
}

#[test]
fn draining_and_dropping_finish_the_queue() {
    on_loop(async {
        let pool = Arc::new(ThreadPool::new("drained", 1, 8).unwrap());
        let (running, release) = blocker(&pool);
        let queued = pool.submit(|| 5).unwrap();
        let drained = Arc::clone(&pool);
        let drainer = std::thread::spawn(move || drained.drain());
        drop(release);
        assert_eq!(queued.await, Ok(5));
        running.await.unwrap();
        drainer.join().unwrap();
        assert_eq!(pool.submit(|| ()).unwrap_err(), QueueFull);

        let pool = ThreadPool::new("dropped", 1, 8).unwrap();
        let (running, release) = blocker(&pool);
        let queued = pool.submit(|| 5).unwrap();
        drop(pool.submit(|| panic!("its handle was dropped")).unwrap());
        drop(pool);
        drop(release);
        running.await.unwrap();
        assert_eq!(queued.await, Ok(5));
    });
}

#[test]
fn draining_ends_at_its_time() {
    on_loop(async {
        let pool = ThreadPool::new("late", 1, 8).unwrap();
        let (running, release) = blocker(&pool);
        assert!(!pool.drain_until(exact_now()));
        assert_eq!(pool.submit(|| ()).unwrap_err(), QueueFull);
        drop(release);
        running.await.unwrap();
        assert!(pool.drain_until(exact_now() + Duration::from_secs(60)));
    });
}

#[test]
fn a_result_may_come_before_the_end() {
    on_loop(async {
        let pool = ThreadPool::new("early", 1, 8).unwrap();
        let (release, wait) = mpsc::channel::<()>();
        let job = submit_replying(&pool, move |reply| {
            assert!(!reply.is_abandoned());
            reply.send(5);
            let _ = wait.recv();
            panic!("after the result");
        });
        assert_eq!(job.unwrap().await, Ok(5));
        assert_eq!(pool.running(), 1);
        drop(release);
        let silent = submit_replying(&pool, |_: Reply<()>| ()).unwrap();
        assert_eq!(silent.await, Err(JobError::Cancelled));
        let (report_sender, report_receiver) = mpsc::channel();
        let (begun, began) = mpsc::channel();
        let (release, wait) = mpsc::channel::<()>();
        let left = submit_replying(&pool, move |reply: Reply<()>| {
            begun.send(()).unwrap();
            let _ = wait.recv();
            report_sender.send(reply.is_abandoned()).unwrap();
        });
        began.recv().unwrap();
        drop(left.unwrap());
        drop(release);
        assert_eq!(report_receiver.recv(), Ok(true));
    });
}

#[test]
fn all_threads_of_a_pool_work_and_are_counted() {
    on_loop(async {
        let pool = ThreadPool::new("counted", 4, 3).unwrap();
        // No job ends before all have begun.
        let barrier = Arc::new(Barrier::new(5));
        let begin = || {
            let barrier = barrier.clone();
            pool.submit(move || barrier.wait().is_leader()).unwrap()
        };
        let mut jobs = Vec::new();
        for _ in 0..4 {
            jobs.push(begin());
            while pool.queued() > 0 {
                crate::yield_now().await;
            }
        }
        assert_eq!((pool.queued(), pool.running()), (0, 4));
        drop(pool.submit(|| ()).unwrap());
        let kept = [pool.submit(|| ()).unwrap(), pool.submit(|| ()).unwrap()];
        let late = pool.submit(|| ()).unwrap();
        assert_eq!(pool.submit(|| ()).unwrap_err(), QueueFull);
        barrier.wait();
        for job in jobs {
            job.await.unwrap();
        }
        for job in kept.into_iter().chain([late]) {
            job.await.unwrap();
        }
        pool.drain();
        let figures = pool.figures();
        assert_eq!((figures.threads, figures.max_queue), (4, 3));
        assert_eq!((figures.queued, figures.running), (0, 0));
        assert_eq!((figures.finished, figures.cancelled, figures.refused), (7, 1, 1));
        assert!(figures.waited >= figures.waited_max && figures.ran >= figures.ran_max);
    });
}

#[test]
fn draining_waits_for_the_last_guard() {
    on_loop(async {
        let drain = Drain::new();
        let guard = drain.guard();
        assert!(!drain.is_draining() && !guard.is_draining());
        assert!(poll_once(drain.closing()).await.is_none());
        assert!(poll_once(drain.drained()).await.is_none());
        let waiter = drain.clone();
        let all_done = spawn_local(async move { waiter.drained().await });
        let noticed = spawn_local(async move {
            guard.closing().await;
            guard
        });
        crate::yield_now().await;
        drain.begin();
        let guard = noticed.await.unwrap();
        assert!(guard.is_draining());
        assert_eq!(drain.live(), 1);
        assert!(!all_done.is_finished());
        std::thread::spawn(move || drop(guard)).join().unwrap();
        all_done.await.unwrap();
        drain.drained().await;
        drop(drain.guard());
    });
}

#[test]
fn draining_nothing_is_done_at_once() {
    on_loop(async {
        let drain = Drain::default();
        let waiter = drain.clone();
        let done = spawn_local(async move { waiter.drained().await });
        crate::yield_now().await;
        drain.begin();
        done.await.unwrap();
    });
}

#[test]
fn signals_arrive() {
    use tidegate_os::process::{Signal, kill};
    on_loop(async {
        let mut signals = Signals::new().unwrap();
        let own = std::process::id();
        for (sent, expected) in [
            (Signal::Hangup, ProcessSignal::Hangup),
            (Signal::User1, ProcessSignal::User1),
            (Signal::User2, ProcessSignal::User2),
            (Signal::WindowChange, ProcessSignal::WindowChange),
            (Signal::Quit, ProcessSignal::Quit),
            (Signal::Terminate, ProcessSignal::Terminate),
            (Signal::Interrupt, ProcessSignal::Interrupt),
        ] {
            kill(own, sent).unwrap();
            loop {
                match signals.next().await {
                    // Another test's child, if any.
                    ProcessSignal::Child => {}
                    signal => break assert_eq!(signal, expected),
                }
            }
        }
    });
}

#[test]
fn work_for_the_end_of_an_iteration_runs_once_and_soon() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    fn work() {
        DONE.fetch_add(1, Ordering::Relaxed);
    }
    assert!(!crate::iteration::at_end(work), "no loop here");
    let worker = Worker::run("iterations", None, |_| async {
        assert!(crate::iteration::at_end(work) && crate::iteration::at_end(work));
        assert_eq!(DONE.load(Ordering::Relaxed), 0);
        let done = spawn_local(async {
            let mut runs = 0;
            while DONE.load(Ordering::Relaxed) < 2 {
                assert!(runs < 1000, "a loop that always has more to do");
                runs += 1;
                crate::yield_now().await;
            }
        });
        done.await.unwrap();
        assert_eq!(DONE.load(Ordering::Relaxed), 2);
        assert!(crate::iteration::at_end(work));
    });
    worker.unwrap().join().unwrap();
    assert_eq!(DONE.load(Ordering::Relaxed), 3);
}

#[test]
fn long_iterations_are_reported_with_their_longest_work() {
    let (report_sender, report_receiver) = mpsc::channel();
    let worker = Worker::run("iterations", None, move |_| async move {
        let limit = Duration::from_millis(20);
        let report: crate::iteration::Reporter = Box::new(move |long| {
            assert!(long.length > limit && long.length >= long.longest && long.runs > 0);
            report_sender.send(long.what.to_owned()).unwrap();
        });
        crate::iteration::watch(Some((limit, report)));
        let stall = |name: &'static str, time: u64| {
            spawn_local(async move {
                crate::iteration::mark(|what| what.extend_from_slice(b"before"));
                crate::iteration::mark(|what| what.extend_from_slice(name.as_bytes()));
                crate::yield_now().await;
                // The mark is still that of this task.
                let until = exact_now() + Duration::from_millis(time);
                while exact_now() < until {}
            })
        };
        let (first, short) = (stall("first", 60), stall("short", 0));
        first.await.unwrap();
        short.await.unwrap();
        // Waiting does not count.
        crate::timer::sleep(Duration::from_millis(60)).await;
        stall("second", 60).await.unwrap();
        crate::timer::sleep(Duration::from_millis(1)).await;
        crate::iteration::watch(None);
        stall("unwatched", 60).await.unwrap();
        crate::timer::sleep(Duration::from_millis(1)).await;
    });
    worker.unwrap().join().unwrap();
    // On a busy machine any iteration may be long.
    let ours = |what: &String| ["first", "second", "unwatched"].contains(&&**what);
    let reports: Vec<String> = report_receiver.iter().filter(ours).collect();
    assert_eq!(reports, ["first", "second"]);
    let figures = crate::iteration::figures();
    let iterations = figures.iter().find(|figures| figures.thread == "iterations").unwrap();
    assert!(iterations.long >= 2);
    assert!(iterations.length_max >= Duration::from_millis(60));
    assert!(iterations.buckets.iter().sum::<u64>() >= iterations.long);
}

/// A thread that waits for a disk, or for a processor, differs from one that works.
#[test]
fn long_iterations_are_reported_with_their_processor_time() {
    let (report_sender, report_receiver) = mpsc::channel();
    let worker = Worker::run("processor times", None, move |_| async move {
        let limit = Duration::from_millis(20);
        let report: crate::iteration::Reporter = Box::new(move |long| {
            report_sender.send((long.what.to_owned(), long.cpu)).unwrap();
        });
        crate::iteration::watch(Some((limit, report)));
        let stall = |name: &'static str, work: fn()| {
            spawn_local(async move {
                crate::iteration::mark(|what| what.extend_from_slice(name.as_bytes()));
                work();
            })
        };
        let block = || {
            let (_sender, nothing) = mpsc::channel::<()>();
            assert!(nothing.recv_timeout(Duration::from_millis(60)).is_err());
        };
        stall("blocked", block).await.unwrap();
        crate::timer::sleep(Duration::from_millis(1)).await;
        let work = || {
            let cpu = || tidegate_os::time::clock_thread_cpu().unwrap();
            let end = cpu() + Duration::from_millis(60);
            while cpu() < end {}
        };
        stall("working", work).await.unwrap();
        crate::timer::sleep(Duration::from_millis(1)).await;
        crate::iteration::watch(None);
    });
    worker.unwrap().join().unwrap();
    let reports: Vec<(String, Duration)> = report_receiver.iter().collect();
    let of = |name: &str| reports.iter().find(|(what, _)| what == name).unwrap().1;
    assert!(of("blocked") < Duration::from_millis(20), "{reports:?}");
    assert!(of("working") >= Duration::from_millis(60), "{reports:?}");
    let figures = crate::iteration::figures();
    let iterations = figures.iter().find(|figures| figures.thread == "processor times").unwrap();
    assert!(iterations.long >= 2);
    assert!((1..iterations.long).contains(&iterations.long_cpu));
}

#[test]
fn the_first_run_of_an_iteration_uses_the_event_loops_reading_once() {
    let worker = Worker::run("readings", None, |_| async {
        crate::iteration::keep_times(true);
        let woken = spawn_local(async {
            crate::timer::sleep(Duration::from_millis(1)).await;
            let woken = exact_now();
            let (loops, own) = (crate::clock::batch_now(), crate::clock::batch_now());
            assert!(loops <= woken && woken <= own, "{loops:?} {woken:?} {own:?}");
        });
        woken.await.unwrap();
        crate::iteration::keep_times(false);
        let now = exact_now();
        assert!(crate::clock::batch_now() >= now);
    });
    worker.unwrap().join().unwrap();
}

#[test]
fn the_delay_of_an_event_is_the_work_of_the_iterations_around_it() {
    let worker = Worker::run("delays", None, |_| async {
        let begun = exact_now();
        assert_eq!(crate::iteration::delay(begun, begun), Duration::ZERO, "times are not kept");
        crate::iteration::keep_times(true);
        // The last reading of a run may be that of the iteration's end.
        let clocks: [fn() -> Instant; 2] = [exact_now, crate::iteration::exact_now];
        for clock in clocks {
            // A timer that fires while another task keeps the event loop busy.
            let since = exact_now();
            let late = spawn_local(async move {
                crate::timer::sleep(Duration::from_millis(1)).await;
                let now = exact_now();
                (crate::iteration::delay(since, now), now.saturating_duration_since(since))
            });
            let busy = spawn_local(async move {
                crate::yield_now().await;
                let until = clock() + Duration::from_millis(60);
                while clock() < until {}
            });
            busy.await.unwrap();
            let (delay, waited) = late.await.unwrap();
            let least = Duration::from_millis(50);
            assert!(delay >= least && delay <= waited, "{delay:?} of {waited:?}");
        }
        crate::iteration::keep_times(false);
        assert_eq!(crate::iteration::delay(exact_now(), exact_now()), Duration::ZERO);
    });
    worker.unwrap().join().unwrap();
}
