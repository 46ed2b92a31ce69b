//! The commands: their parameters are checked here, and what they do.

use bytes::{Bytes, BytesMut};
use tidegate_codec::uri::{Escape, escape, escape_html, unescape};
use tidegate_core::error_page::split_args;
use tidegate_core::regex::Regex;
use tidegate_core::subrequest::SubrequestOptions;

use super::DateFormat;
use super::error::CommandError;
use super::expression::{Condition, NameMissing, condition, expand};
use super::render::{BRANCHES_MAX, Block, Branch, EXPANDED_BYTES_MAX, PageSource, Renderer};
use super::tag::Command;

/// The parameters of a command.
struct CommandRule {
    name: &'static [u8],
    parameters: &'static [&'static str],
    mandatory: &'static [&'static str],
}

const RULES: &[CommandRule] = &[
    CommandRule {
        name: b"include",
        parameters: &["virtual", "file", "wait", "set", "stub"],
        mandatory: &[],
    },
    CommandRule { name: b"echo", parameters: &["var", "default", "encoding"], mandatory: &["var"] },
    CommandRule { name: b"config", parameters: &["errmsg", "timefmt"], mandatory: &[] },
    CommandRule { name: b"set", parameters: &["var", "value"], mandatory: &["var", "value"] },
    CommandRule { name: b"if", parameters: &["expr"], mandatory: &["expr"] },
    CommandRule { name: b"elif", parameters: &["expr"], mandatory: &["expr"] },
    CommandRule { name: b"else", parameters: &[], mandatory: &[] },
    CommandRule { name: b"endif", parameters: &[], mandatory: &[] },
    CommandRule { name: b"block", parameters: &["name"], mandatory: &["name"] },
    CommandRule { name: b"endblock", parameters: &[], mandatory: &[] },
];

impl Command {
    fn parameter(&self, name: &str) -> Option<&[u8]> {
        let mut parameters = self.parameters.iter();
        let (_, value) = parameters.find(|(known, _)| known == name.as_bytes())?;
        Some(value)
    }

    /// Returns a mandatory parameter, whose presence [`check`] has verified.
    fn value(&self, name: &str) -> &[u8] {
        self.parameter(name).unwrap_or_default()
    }
}

/// Checks that the command exists and has its mandatory parameters.
fn check(command: &Command) -> Result<(), CommandError> {
    let shown = || shown(&command.name);
    let Some(rule) = RULES.iter().find(|rule| rule.name == command.name) else {
        return Err(CommandError::Unknown { command: shown() });
    };
    for (index, (name, _)) in command.parameters.iter().enumerate() {
        let parameter = String::from_utf8_lossy(name);
        if !rule.parameters.contains(&&*parameter) {
            let parameter = parameter.into_owned();
            return Err(CommandError::ParameterUnknown { parameter, command: shown() });
        }
        if command.parameters[..index].iter().any(|(earlier, _)| earlier == name) {
            let parameter = parameter.into_owned();
            return Err(CommandError::ParameterTwice { parameter, command: shown() });
        }
    }
    match rule.mandatory.iter().find(|name| command.parameter(name).is_none()) {
        None => Ok(()),
        Some(parameter) => Err(CommandError::ParameterMissing { parameter, command: shown() }),
    }
}

/// Formats a text for error messages.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

impl Renderer {
    /// Runs a command. Returns true when an include has to end before the text behind it is processed.
    pub(super) fn command(&mut self, source: &mut PageSource, command: &Command) -> bool {
        let decides = matches!(&command.name[..], b"if" | b"elif" | b"else" | b"endif");
        if !decides && !source.is_active() {
            return false;
        }
        match self.try_command(source, command) {
            Ok(wait) => wait,
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn try_command(
        &mut self,
        source: &mut PageSource,
        command: &Command,
    ) -> Result<bool, CommandError> {
        check(command)?;
        match &command.name[..] {
            b"include" => return self.include_command(command),
            b"echo" => self.echo(command),
            b"config" => self.config(command),
            b"set" => {
                let value = self.expanded(command.value("value"), false)?;
                let name = command.value("var").to_ascii_lowercase();
                self.page.set(name, Bytes::from(value))?;
            }
            b"block" => {
                let name = command.value("name").to_vec();
                source.block = Some(Block { name, text: BytesMut::new(), too_long: false });
            }
            b"endblock" => match source.block.take() {
                Some(Block { name, too_long: true, .. }) => {
                    return Err(CommandError::BlockTooLong { name: shown(&name) });
                }
                Some(block) => self.page.set_block(block.name, block.text.freeze())?,
                None => return Err(CommandError::Context { command: shown(&command.name) }),
            },
            _ => self.decide(source, command)?,
        }
        Ok(false)
    }

    /// Runs `if`, `elif`, `else`, `endif`.
    ///
    /// Each `if` is a [`Branch`]; text is output while all branches are active.
    ///
    /// | command | needs | effect |
    /// |---|---|---|
    /// | `if` | – | a branch: active where the condition holds and the outside is active |
    /// | `elif` | a branch without `else` | active where none before was and the condition holds |
    /// | `else` | the same | active where none before was |
    /// | `endif` | a branch | it ends |
    ///
    /// Invariant: conditions in inactive text are not evaluated, and an `if` in it is left out as a whole
    /// (`taken`). Beyond [`BRANCHES_MAX`] only the number of branches is kept, so that each `endif` is matched.
    fn decide(&mut self, source: &mut PageSource, command: &Command) -> Result<(), CommandError> {
        if command.name == b"if" {
            if source.branches.len() >= BRANCHES_MAX {
                source.too_deep += 1;
                return Err(CommandError::TooDeep);
            }
            // The condition of an inactive branch is not evaluated.
            let outer = source.is_active();
            let active = match outer {
                true => self.holds(command.value("expr")),
                false => Ok(false),
            };
            // Within another one its `endif` has to find it. Alone, it has none, as in nginx.
            if let Ok(active) = active {
                source.branches.push(Branch { active, taken: active || !outer, had_else: false });
            } else if !source.branches.is_empty() {
                source.branches.push(Branch { active: false, taken: true, had_else: false });
            }
            return active.map(drop);
        }
        let invalid = || Err(CommandError::Context { command: shown(&command.name) });
        if source.too_deep > 0 {
            source.too_deep -= u64::from(command.name == b"endif");
            return Ok(());
        }
        let Some(branch) = source.branches.last_mut() else { return invalid() };
        if command.name == b"endif" {
            source.branches.pop();
            return Ok(());
        }
        if branch.had_else {
            return invalid();
        }
        branch.had_else = command.name == b"else";
        branch.active = false;
        if !branch.taken {
            branch.active = branch.had_else || self.holds(command.value("expr"))?;
            branch.taken = branch.active;
        }
        Ok(())
    }

    fn config(&mut self, command: &Command) {
        if let Some(format) = command.parameter("timefmt") {
            self.x.modules.extensions.insert(DateFormat(format.to_vec()));
        }
        if let Some(text) = command.parameter("errmsg") {
            self.error_text = Bytes::copy_from_slice(text);
        }
    }

    fn echo(&mut self, command: &Command) {
        let mut value = Vec::new();
        let name = command.value("var").to_ascii_lowercase();
        if !self.look_up(&name, &mut value) {
            value = command.parameter("default").unwrap_or(b"(none)").to_vec();
        }
        let mut out = Vec::with_capacity(value.len());
        match command.parameter("encoding") {
            Some(b"none") => out = value,
            Some(b"url") => escape_url(&value, &mut out),
            _ => escape_html(&value, &mut out),
        }
        self.push(Bytes::from(out));
    }

    /// Runs `include`: begins a subrequest, whose place in the page is kept ([`Renderer::push_include`]); the rest
    /// of the page is processed unless this include has to be waited for.
    ///
    /// Invariant: it has either `virtual` or `file`, whose path has no parent directories above the root. A
    /// variable of `set` exists from now on, empty, and makes the page wait, as the rest of the page may use it. An
    /// include beyond the limits of subrequests leaves the error text. Returns true when the page waits. Source:
    /// nginx's `ngx_http_ssi_module`, "SSI Commands".
    fn include_command(&mut self, command: &Command) -> Result<bool, CommandError> {
        let target = match (command.parameter("virtual"), command.parameter("file")) {
            (Some(target), None) | (None, Some(target)) => target,
            (Some(target), Some(file)) => {
                let (target, file) = (shown(target), shown(file));
                return Err(CommandError::TwoTargets { target, file });
            }
            (None, None) => return Err(CommandError::NoTarget),
        };
        let mut wait = match command.parameter("wait") {
            None | Some(b"no") => false,
            Some(b"yes") => true,
            Some(other) => {
                return Err(CommandError::Wait { value: shown(other) });
            }
        };
        let target = self.expanded(target, false)?;
        let (path, args) = self.target(target)?;
        let stub = match command.parameter("stub") {
            None => None,
            Some(name) => match self.page.blocks.borrow().get(name) {
                Some(text) => Some(text.clone()),
                None => return Err(CommandError::Stub { name: shown(name) }),
            },
        };
        let set = command.parameter("set").map(<[u8]>::to_ascii_lowercase);
        if let Some(name) = &set {
            // It exists from now on; only a successful response changes it.
            let known = self.page.variables.borrow().contains_key(name);
            if !known {
                self.page.set(name.clone(), Bytes::new())?;
            }
            wait = true;
        }
        match self.x.subrequest(path, args, SubrequestOptions::default()) {
            Ok(subrequest) => {
                self.push_include(subrequest, stub, set);
                Ok(wait)
            }
            Err(_) => {
                self.push_error_text();
                Ok(false)
            }
        }
    }

    /// Returns path and arguments of an include; a relative path begins at the page's directory.
    fn target(&self, target: Vec<u8>) -> Result<(Vec<u8>, Vec<u8>), CommandError> {
        let (written, args) = split_args(target);
        let mut path = Vec::with_capacity(written.len() + 32);
        if !written.starts_with(b"/") {
            let page = &self.x.request.path;
            let directory =
                page.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            path.extend_from_slice(&page[..directory]);
        }
        unescape(&written, &mut path);
        let climbs = path.split(|byte| *byte == b'/').any(|segment| segment == b"..");
        if climbs || path.contains(&0) || !path.starts_with(b"/") {
            return Err(CommandError::UnsafeUri { uri: shown(&written) });
        }
        Ok((path, args))
    }

    /// Evaluates a condition.
    fn holds(&mut self, text: &[u8]) -> Result<bool, CommandError> {
        match condition(text).ok_or_else(|| CommandError::Expression { text: shown(text) })? {
            Condition::Present(text) => Ok(!self.expanded(text, false)?.is_empty()),
            Condition::Equal { left, right, negated } => {
                Ok((self.expanded(left, false)? == self.expanded(right, false)?) != negated)
            }
            Condition::Match { left, regex, negated } => {
                let left = self.expanded(left, false)?;
                let regex = self.expanded(regex, true)?;
                Ok(self.matches(&left, &regex)? != negated)
            }
        }
    }

    fn matches(&mut self, subject: &[u8], regex: &[u8]) -> Result<bool, CommandError> {
        let regex = Regex::compile_late(&String::from_utf8_lossy(regex))
            .map_err(|error| CommandError::Regex(error.to_string()))?;
        match regex.capture_into(&mut self.captures, subject) {
            Ok(false) => Ok(false),
            Ok(true) => {
                for (group, name) in regex.names() {
                    let value = self.captures.group(group).unwrap_or_default();
                    let name = name.to_ascii_lowercase().into_bytes();
                    self.page.set(name, Bytes::copy_from_slice(value))?;
                }
                Ok(true)
            }
            Err(_) => Err(CommandError::BacktrackingLimit { regex: regex.text().to_owned() }),
        }
    }

    fn expanded(&mut self, text: &[u8], lenient: bool) -> Result<Vec<u8>, CommandError> {
        let mut out = Vec::with_capacity(text.len());
        let look_up = |name: &[u8], out: &mut Vec<u8>| {
            // Nothing is appended to a text that is already too long.
            if out.len() <= EXPANDED_BYTES_MAX {
                self.look_up(name, out);
            }
        };
        match expand(text, lenient, &mut out, look_up) {
            Ok(()) if out.len() > EXPANDED_BYTES_MAX => {
                Err(CommandError::TooLong { text: shown(text) })
            }
            Ok(()) => Ok(out),
            Err(NameMissing) => Err(CommandError::VariableName { text: shown(text) }),
        }
    }

    /// Appends a variable's value: of a group, of the page, or of the request. Returns false if there is none.
    fn look_up(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        if let [digit @ b'0'..=b'9'] = name {
            let group = self.captures.group(usize::from(digit - b'0'));
            out.extend_from_slice(group.unwrap_or_default());
            return group.is_some();
        }
        if let Some(value) = self.page.variables.borrow().get(name) {
            out.extend_from_slice(value);
            return true;
        }
        self.x.variable_named(name, out)
    }
}

/// Escapes for `encoding="url"`: like a path, but `?` is kept.
fn escape_url(value: &[u8], out: &mut Vec<u8>) {
    for (index, part) in value.split(|byte| *byte == b'?').enumerate() {
        if index > 0 {
            out.push(b'?');
        }
        escape(part, Escape::Uri, out);
    }
}
