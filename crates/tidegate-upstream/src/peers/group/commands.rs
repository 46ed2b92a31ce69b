//! Commands to a group in use: servers are added, changed and removed by their numbers.

use std::time::Instant;

use super::Group;
use crate::peers::member::{Member, MemberAddress};
use crate::peers::options::ServerOptions;

impl Group {
    /// Adds a server; returns its number, that of the name where it has one.
    pub fn add(&self, member: Member, now: Instant) -> Option<u32> {
        let mut members = self.lock_members();
        members.push(member);
        self.apply(&mut members, now);
        let number = members.last().and_then(|member| member.number);
        let number =
            number.or_else(|| self.lock().numbers(&members).pop().map(|(_, number)| number));
        drop(members);
        self.changed();
        number
    }

    /// Sets the addresses of a server with a name. `false`: there is no such server, or they are the same.
    pub fn set_places(&self, number: u32, places: Vec<MemberAddress>, now: Instant) -> bool {
        let known = |member: &&mut Member| member.number == Some(number);
        let is_changed = |member: &mut Member| member.places != places;
        if !self.lock_members().iter_mut().find(known).is_some_and(is_changed) {
            return false;
        }
        self.change_members(now, |members| {
            members.iter_mut().filter(|member| member.number == Some(number)).for_each(|member| {
                member.places.clone_from(&places);
            });
        });
        true
    }

    /// Changes the parameters of the server with this number, or of the one that has this address. `false`: there is none.
    pub fn change(
        &self,
        number: u32,
        now: Instant,
        change: impl FnOnce(&mut ServerOptions),
    ) -> bool {
        self.change_numbered(number, now, |members, at, _| change(&mut members[at].options))
    }

    /// Removes a server with its addresses, or an address; a server without any is removed. `false`: there is none.
    pub fn remove(&self, number: u32, now: Instant) -> bool {
        self.change_numbered(number, now, |members, at, place| {
            if let Some(place) = place {
                members[at].places.remove(place);
            }
            if place.is_none() || (members[at].places.is_empty() && members[at].name.is_none()) {
                members.remove(at);
            }
        })
    }

    /// Changes the server with this number: `change` gets its index, and that of the place where the number is an
    /// address's. `false`: there is none.
    fn change_numbered(
        &self,
        number: u32,
        now: Instant,
        change: impl FnOnce(&mut Vec<Member>, usize, Option<usize>),
    ) -> bool {
        let mut members = self.lock_members();
        let whole = members.iter().position(|member| member.number == Some(number));
        let found = whole.map(|at| (at, None)).or_else(|| {
            let numbers = self.lock().numbers(&members);
            let ((at, place), _) = numbers.into_iter().find(|(_, known)| *known == number)?;
            Some((at, Some(place)))
        });
        let Some((at, place)) = found else { return false };
        change(&mut members, at, place);
        self.apply(&mut members, now);
        drop(members);
        self.changed();
        true
    }
}
