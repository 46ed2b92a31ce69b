//! A budget: an amount of work that a peer can cause without paying for it.

/// A number that only shrinks until it is earned back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    left: u32,
    size: u32,
}

impl Budget {
    /// A budget that is full.
    pub fn new(size: u32) -> Budget {
        Budget { left: size, size }
    }

    /// Takes one. `None` where nothing is left.
    #[inline]
    pub fn spend(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    /// Whether more than half is spent.
    #[inline]
    pub fn is_low(self) -> bool {
        self.left < self.size / 2
    }

    /// Gives back, at most to the size.
    #[inline]
    pub fn earn(&mut self, amount: u32) {
        self.left = self.left.saturating_add(amount).min(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_budget_is_earned_back_to_its_size() {
        let mut budget = Budget::new(3);
        let spend = |budget: &mut Budget| (0..9).take_while(|_| budget.spend().is_some()).count();
        assert_eq!(spend(&mut budget), 3);
        budget.earn(2);
        assert_eq!(spend(&mut budget), 2);
        budget.earn(u32::MAX);
        assert_eq!(spend(&mut budget), 3);
    }
}
