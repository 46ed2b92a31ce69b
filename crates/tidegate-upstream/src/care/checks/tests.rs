//! The effect of checks, and their order in time.

use std::sync::Mutex;

use tidegate_rt::net::Addr;
use tidegate_rt::spawn_local;

use super::*;
use crate::peers::{
    BalancingMethod, CheckRule, GroupOptions, Keepalive, Member, Mutability, ServerOptions,
};

#[test]
fn so_many_in_a_row() {
    let plan = CheckPlan { fails: 3, passes: 2, ..CheckPlan::default() };
    let check = |start: Health, results: &str, expected: &str| {
        let mut state = HealthState::new(start);
        let mut seen = String::new();
        for result in results.chars() {
            state = state.after(result == '+', &plan);
            seen.push(if state.health == Health::Fine { '+' } else { '-' });
        }
        assert_eq!(seen, expected, "{results} from {start:?}");
    };
    check(Health::Fine, "---", "++-");
    check(Health::Fine, "--+--+", "++++++");
    check(Health::Unhealthy, "+-++", "---+");
    check(Health::Checking, "-", "-");
    check(Health::Checking, "+--", "+++");
}

/// Returns scripted results, and records the checked servers.
#[derive(Default)]
struct Scripted {
    ill: Mutex<Vec<String>>,
    asked: Mutex<Vec<String>>,
}

impl Probe for Scripted {
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>> {
        let text = peer.text.to_string();
        let ill = self.ill.lock().is_ok_and(|ill| ill.contains(&text));
        if let Ok(mut asked) = self.asked.lock() {
            asked.push(text);
        }
        Box::pin(std::future::ready(if ill {
            Err(CheckFailure::from("it is ill"))
        } else {
            Ok(())
        }))
    }
}

#[test]
fn servers_added_later_are_checked_too() {
    let member = |address: &str| {
        let address_value = Addr::Inet(address.parse().expect("an address"));
        Member::fixed(address, vec![address_value], ServerOptions::default())
    };
    let options = GroupOptions { mutability: Mutability::Changing, ..GroupOptions::default() };
    let (first, second) = ("127.0.0.1:1", "127.0.0.1:2");
    let members = vec![member(first)];
    let group = Group::with(
        "g",
        (BalancingMethod::RoundRobin, Keepalive::DEFAULT, options),
        members,
        clock::now(),
    );
    let group = Arc::new(group);
    let rule = CheckRule { name: "c".into(), mandatory: true, persistent: false };
    let number = group.add_check(rule, clock::now());
    let probe = Arc::new(Scripted::default());
    probe.ill.lock().expect("a list").push(second.to_owned());
    let plan = CheckPlan { interval: Duration::from_millis(1), ..CheckPlan::default() };
    let task = CheckTask {
        group: group.clone(),
        number,
        plan,
        probe: probe.clone(),
        log: ErrorLog::default(),
    };
    let health = |text: &str| {
        let view = group.view(clock::now());
        view.iter().find(|slot| &*slot.peer.text == text).map(|slot| slot.health)
    };
    let done = tidegate_rt::block_on(async {
        let running = spawn_local(Arc::new(task).run());
        let until = async |text: &str, wanted: Health| {
            while health(text) != Some(wanted) {
                tidegate_rt::yield_now().await;
            }
        };
        until(first, Health::Fine).await;
        group.change_members(clock::now(), |members| members.push(member(second)));
        until(second, Health::Unhealthy).await;
        probe.ill.lock().expect("a list").clear();
        until(second, Health::Fine).await;
        running.abort();
    });
    done.expect("a loop");
    assert_eq!(health(first), Some(Health::Fine));
}
