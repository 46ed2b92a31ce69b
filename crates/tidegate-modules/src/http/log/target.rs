//! The destination of log lines: a file, a buffered file, a file with variables in its name, syslog.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Span};
use tidegate_core::log_file::{LogFile, write_pending_lines};
use tidegate_core::syslog::Syslog;
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use super::Shared;
use super::buffer::Buffer;
use super::conf::{Conf, LogConf};
use super::format::Format;
use super::named::VariableLog;
use super::open_files::OpenFiles;

/// One `access_log`, opened.
#[derive(Debug)]
pub(super) struct LogTarget {
    place: Destination,
    format: Arc<Format>,
    condition: Option<Template>,
}

#[derive(Debug)]
enum Destination {
    /// Standard error: an empty name, as in nginx.
    Stderr,
    File(Arc<LogFile>),
    Buffer(Arc<Buffer>),
    Variable(VariableLog),
    Syslog(Syslog),
}

impl LogTarget {
    /// Opens the log that is written without an `access_log` directive.
    pub(super) fn default_log(plan: &mut PlanBuilder<'_>) -> Result<LogTarget, Diagnostic> {
        let file = plan.log_file(&plan.path(plan.environment.layout.access_log), Span::NONE)?;
        let format = match plan.shared::<Shared>().formats.get(&b"combined"[..]) {
            Some(format) => format.clone(),
            None => Arc::new(Format::combined(plan)?),
        };
        Ok(LogTarget { place: Destination::File(file), format, condition: None })
    }

    /// Opens the destination of an `access_log`.
    pub(super) fn open(
        log: &LogConf,
        conf: &Conf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<LogTarget, Diagnostic> {
        let name = log.format.as_ref().map_or(&b"combined"[..], |word| &word.bytes);
        let Some(format) = plan.shared::<Shared>().formats.get(name).cloned() else {
            let message = format!("unknown log format \"{}\"", String::from_utf8_lossy(name));
            let span = log.format.as_ref().map_or(log.path.span, |word| word.span);
            return Err(Diagnostic::emerg(message).at(span));
        };
        let condition = log.condition.as_ref().map(|word| plan.template(word)).transpose()?;
        Ok(LogTarget { place: place(log, conf, plan)?, format, condition })
    }

    /// Makes the line and writes it, unless the condition is false.
    pub(super) fn write(&self, x: &mut Exchange, line: &mut Vec<u8>) {
        if let Some(condition) = &self.condition {
            condition.write(x, line);
            if line.is_empty() || line == b"0" {
                return;
            }
            line.clear();
        }
        self.format.write(x, line);
        if let Destination::Syslog(syslog) = &self.place {
            return syslog.send_access(line);
        }
        line.push(b'\n');
        match &self.place {
            Destination::File(file) => {
                file.write_at_iteration_end(line);
                // A reader that waits for the connection to close finds its lines.
                if !x.disposition.keeps_connection() {
                    write_pending_lines();
                }
            }
            Destination::Buffer(buffer) => buffer.write(line, clock::now()),
            Destination::Variable(named) => named.write(x, line, clock::now()),
            Destination::Stderr => {
                let _ = std::io::stderr().write_all(line);
            }
            Destination::Syslog(_) => {}
        }
    }
}

fn place(
    log: &LogConf,
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Destination, Diagnostic> {
    let text = log.path.display();
    if text.is_empty() {
        return Ok(Destination::Stderr);
    }
    if let Some(parameters) = text.strip_prefix("syslog:") {
        let syslog = plan
            .syslog(parameters)
            .map_err(|error| Diagnostic::emerg(error.to_string()).at(log.path.span))?;
        return Ok(Destination::Syslog(syslog));
    }
    let template = plan.template(&log.path)?;
    if template.literal().is_none() {
        let open_files = conf.open_files.flatten().map(OpenFiles::new);
        let prefix = plan.environment.prefix.to_owned();
        return Ok(Destination::Variable(VariableLog::new(template, prefix, open_files)));
    }
    let path = plan.path(&text);
    let file = plan.log_file(&path, log.path.span)?;
    match log.buffer {
        None => Ok(Destination::File(file)),
        Some(_) => Ok(Destination::Buffer(buffer(log, path, file, plan)?)),
    }
}

/// Returns the one buffer of a path.
fn buffer(
    log: &LogConf,
    path: PathBuf,
    file: Arc<LogFile>,
    plan: &mut PlanBuilder<'_>,
) -> Result<Arc<Buffer>, Diagnostic> {
    let Some(conf) = log.buffer else {
        return Err(Diagnostic::emerg("no buffer is defined").at(log.path.span));
    };
    let shared = plan.shared::<Shared>();
    if let Some(known) = shared.buffers.get(&path) {
        if *known.conf() == conf {
            return Ok(known.clone());
        }
        let path = path.display();
        let message = format!("access_log \"{path}\" already defined with conflicting parameters");
        return Err(Diagnostic::emerg(message).at(log.path.span));
    }
    let buffer = Buffer::new(file, conf);
    shared.buffers.insert(path, buffer.clone());
    if conf.flush.is_some() {
        let is_new = shared.service.is_none();
        let service = shared.service.get_or_insert_default().clone();
        service.add(buffer.clone());
        if is_new {
            plan.services.push(service);
        }
    }
    Ok(buffer)
}
