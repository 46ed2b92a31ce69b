//! The age of a browser by its `User-Agent`.

/// The class of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrowserAge {
    Modern,
    Ancient,
}

/// Browsers with versions, in the order in which they are matched. Opera is first, as it claims to be others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BrowserKind {
    Opera,
    Msie,
    Gecko,
    Safari,
    Konqueror,
}

/// A version as one number: four parts, the last three of two digits each.
pub(super) type BrowserVersion = u64;

/// The directives of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BrowserRules {
    pub modern: Vec<(BrowserKind, BrowserVersion)>,
    pub ancient: Vec<Vec<u8>>,
    pub unlisted_is_modern: bool,
}

impl BrowserKind {
    /// Returns the browser with this name in `modern_browser`.
    pub(super) fn of(name: &[u8]) -> Option<BrowserKind> {
        Some(match name {
            b"opera" => BrowserKind::Opera,
            b"msie" => BrowserKind::Msie,
            b"gecko" => BrowserKind::Gecko,
            b"safari" => BrowserKind::Safari,
            b"konqueror" => BrowserKind::Konqueror,
            _ => return None,
        })
    }

    /// Returns the text before the version, without the separator between them.
    fn mark(self) -> &'static [u8] {
        match self {
            BrowserKind::Opera => b"Opera",
            BrowserKind::Msie => b"MSIE",
            BrowserKind::Gecko => b"rv",
            BrowserKind::Safari => b"Safari",
            BrowserKind::Konqueror => b"Konqueror",
        }
    }

    /// Returns the version in a `User-Agent`, if the agent is this browser.
    fn version(self, agent: &[u8]) -> Option<BrowserVersion> {
        let mark = self.mark();
        let behind = find(agent, mark).map(|at| &agent[at + mark.len()..])?;
        match (self, behind) {
            (BrowserKind::Opera, [_, version @ ..])
            | (BrowserKind::Msie, [b' ', version @ ..])
            | (BrowserKind::Gecko, [b':', version @ ..])
            | (BrowserKind::Safari | BrowserKind::Konqueror, [b'/', version @ ..]) => {
                Some(leading(version))
            }
            _ => None,
        }
    }
}

impl BrowserRules {
    /// Inherits what is not set here: the browsers together with `unlisted`, and the ancient ones.
    pub(super) fn inherit(&mut self, parent: &BrowserRules) {
        if self.modern.is_empty() && !self.unlisted_is_modern {
            self.modern.clone_from(&parent.modern);
            self.unlisted_is_modern = parent.unlisted_is_modern;
        }
        if self.ancient.is_empty() {
            self.ancient.clone_from(&parent.ancient);
        }
    }

    /// Returns the class of the browser.
    pub(super) fn age(&self, agent: &[u8]) -> BrowserAge {
        if let Some(age) = self.age_of_listed(agent) {
            return age;
        }
        let is_ancient = |mark: &Vec<u8>| match &mark[..] {
            b"netscape4" => matches!(agent.strip_prefix(b"Mozilla/"), Some([b'1'..=b'4', ..])),
            mark => find(agent, mark).is_some(),
        };
        match self.unlisted_is_modern && !self.ancient.iter().any(is_ancient) {
            true => BrowserAge::Modern,
            false => BrowserAge::Ancient,
        }
    }

    /// Returns the class of a browser that `modern_browser` names. Where it names some but not Opera, an Opera is
    /// ancient, whatever else it claims to be.
    fn age_of_listed(&self, agent: &[u8]) -> Option<BrowserAge> {
        if self.modern.is_empty() {
            return None;
        }
        for kind in [
            BrowserKind::Opera,
            BrowserKind::Msie,
            BrowserKind::Gecko,
            BrowserKind::Safari,
            BrowserKind::Konqueror,
        ] {
            let listed = self.modern.iter().find(|(listed, _)| *listed == kind);
            if listed.is_none() && kind != BrowserKind::Opera {
                continue;
            }
            let Some(version) = kind.version(agent) else { continue };
            return Some(match listed {
                Some((_, modern)) if version >= *modern => BrowserAge::Modern,
                _ => BrowserAge::Ancient,
            });
        }
        None
    }
}

/// Returns whether an agent is an Internet Explorer of any version.
pub(super) fn is_msie(agent: &[u8]) -> bool {
    let version = find(agent, b"MSIE ").and_then(|at| agent.get(at + 5));
    version.is_some_and(u8::is_ascii_digit) && find(agent, b"Opera").is_none()
}

/// Parses a version of digits and dots, of which the first four parts count.
pub(super) fn parse_version(text: &[u8]) -> Option<BrowserVersion> {
    let valid = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    text.iter().all(valid).then(|| leading(text))
}

/// Parses the version at the beginning of a text.
fn leading(text: &[u8]) -> BrowserVersion {
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.');
    let mut parts = text[..end.unwrap_or(text.len())].split(|byte| *byte == b'.');
    [1_000_000, 10_000, 100, 1].into_iter().fold(0, |sum: BrowserVersion, scale| {
        let digits = parts.next().unwrap_or_default();
        let number = digits.iter().fold(0, |number: BrowserVersion, digit| {
            number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        sum.saturating_add(number.saturating_mul(scale))
    })
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}
