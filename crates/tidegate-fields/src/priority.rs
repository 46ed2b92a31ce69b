//! Priorities of RFC 9218: the `priority` field and PRIORITY_UPDATE.

/// How urgent a response is, and whether pieces of it are of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Pieces are of use as they arrive: such responses share the connection.
    pub incremental: bool,
}

impl Priority {
    /// What a client means that sends a `priority` field without members (RFC 9218 section 4).
    pub const DEFAULT: Priority = Priority { urgency: 3, incremental: false };

    /// For streams without a signal: as urgent as the default, but they share the connection, so that a client
    /// without priorities receives all of its responses at once.
    pub const UNSIGNALLED: Priority = Priority { urgency: 3, incremental: true };

    /// Reads the value of a `priority` field or of PRIORITY_UPDATE. Unknown members, and values of the wrong type or
    /// out of range, are as if they were not there (RFC 9218 section 4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::DEFAULT;
        for member in value.split(|byte| *byte == b',') {
            let member = member.split(|byte| *byte == b';').next().unwrap_or(member);
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn fields_are_read_as_section_4_says() {
        for (text, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i;x=1,u=5;y", 5, true),
            ("i=?1 , u=2", 2, true),
            ("i, i=?0", 3, false),
            ("u=1, u=6", 6, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=\"1\", i=1", 3, false),
            ("u, x=3, I", 3, false),
            ("u=33", 3, false),
            (",,;=", 3, false),
        ] {
            let expected = Priority { urgency, incremental };
            assert_eq!(Priority::parse(text.as_bytes()), expected, "{text}");
        }
    }
}
