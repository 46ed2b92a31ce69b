//! Where lines go: a file, a buffered file, a file with variables in its name, syslog.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tidegate_conf::{Diagnostic, Span};
use tidegate_core::builder::{PlanBuilder, os_error};
use tidegate_core::log_file::{LogFile, open_append, write_gathered};
use tidegate_core::syslog::Syslog;
use tidegate_core::{Exchange, Level, Template, file_path};

use super::Shared;
use super::buffer::Buffer;
use super::conf::{Conf, LogConf};
use super::format::Format;
use super::open_files::OpenFiles;
use crate::http::files::{self, Kind};

/// One `access_log`, ready.
pub struct Target {
    place: Place,
    format: Arc<Format>,
    condition: Option<Template>,
}

enum Place {
    File(Arc<LogFile>),
    Buffer(Arc<Buffer>),
    Named(Box<Named>),
    Syslog(Syslog),
}

/// A file whose name depends on the request.
struct Named {
    path: Template,
    prefix: String,
    open_files: Option<OpenFiles>,
    /// Second of the last complaint.
    complained: AtomicI64,
}

/// Path of the log when nothing is said.
const PATH_DEFAULT: &str = "logs/access.log";

impl Target {
    /// The log that is written when no `access_log` says otherwise.
    pub fn default_log(plan: &mut PlanBuilder<'_>) -> Result<Target, Diagnostic> {
        let file = plan.log_file(&plan.path(PATH_DEFAULT), Span::NONE)?;
        let format = match plan.shared::<Shared>().formats.get(&b"combined"[..]) {
            Some(format) => format.clone(),
            None => Arc::new(Format::combined(plan)?),
        };
        Ok(Target { place: Place::File(file), format, condition: None })
    }

    /// Opens what an `access_log` names.
    pub fn open(
        log: &LogConf,
        conf: &Conf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Target, Diagnostic> {
        let name = log.format.as_ref().map_or(&b"combined"[..], |word| &word.bytes);
        let Some(format) = plan.shared::<Shared>().formats.get(name).cloned() else {
            let message = format!("unknown log format \"{}\"", String::from_utf8_lossy(name));
            let span = log.format.as_ref().map_or(log.path.span, |word| word.span);
            return Err(Diagnostic::emerg(message).at(span));
        };
        let condition = log.condition.as_ref().map(|word| plan.template(word)).transpose()?;
        Ok(Target { place: place(log, conf, plan)?, format, condition })
    }

    /// Makes the line and writes it, unless the condition says no.
    pub fn write(&self, x: &mut Exchange, line: &mut Vec<u8>) {
        if let Some(condition) = &self.condition {
            condition.write(x, line);
            if line.is_empty() || line == b"0" {
                return;
            }
            line.clear();
        }
        self.format.write(x, line);
        if let Place::Syslog(syslog) = &self.place {
            return syslog.send_access(line);
        }
        line.push(b'\n');
        match &self.place {
            Place::File(file) => {
                file.write_with_turn(line);
                // Whoever waits for the connection's end finds its lines.
                if !x.keep_alive {
                    write_gathered();
                }
            }
            Place::Buffer(buffer) => buffer.write(line),
            Place::Named(named) => named.write(x, line),
            Place::Syslog(_) => {}
        }
    }
}

fn place(log: &LogConf, conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Place, Diagnostic> {
    let text = log.path.display();
    if let Some(parameters) = text.strip_prefix("syslog:") {
        let syslog = Syslog::parse(parameters)
            .map_err(|message| Diagnostic::emerg(message).at(log.path.span))?;
        return Ok(Place::Syslog(syslog));
    }
    let template = plan.template(&log.path)?;
    if template.literal().is_none() {
        let open_files = conf.open_files.flatten().map(OpenFiles::new);
        return Ok(Place::Named(Box::new(Named {
            path: template,
            prefix: plan.environment.prefix.to_owned(),
            open_files,
            complained: AtomicI64::new(0),
        })));
    }
    let path = plan.path(&text);
    let file = plan.log_file(&path, log.path.span)?;
    match log.buffer {
        None => Ok(Place::File(file)),
        Some(_) => Ok(Place::Buffer(buffer(log, path, file, plan)?)),
    }
}

/// The one buffer of a path.
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

impl Named {
    fn write(&self, x: &mut Exchange, line: &[u8]) {
        let name = self.path.value(x);
        let path = tidegate_os::path::of(&name);
        let path = match path.is_absolute() {
            true => path.to_path_buf(),
            false => Path::new(&self.prefix).join(path),
        };
        // As nginx documents, for requests: without the request's root folder there is no log, so that a client cannot
        // make files by inventing host names.
        let mut root = Vec::new();
        file_path::append_root(x, &mut root);
        let is_folder = || files::file_test(&root).is_ok_and(|found| found.kind == Kind::Directory);
        if x.session().is_none() && !is_folder() {
            let root = String::from_utf8_lossy(&root).into_owned();
            return self.complain(x, &format!("testing \"{root}\" existence failed"));
        }
        let written = if path.starts_with(&self.prefix) { self.prefix.len() } else { 0 };
        if let Err(error) = tidegate_os::path::check(&path, written) {
            let (path, error) = (path.display(), os_error(&error));
            return self.complain(x, &format!("open() \"{path}\" failed ({error})"));
        }
        let file = match &self.open_files {
            Some(open_files) => open_files.open(&path, tidegate_rt::clock::now()),
            None => open_append(&path).map(Arc::new),
        };
        match file {
            Ok(file) => drop((&*file).write_all(line)),
            Err(error) => {
                let (path, error) = (path.display(), os_error(&error));
                self.complain(x, &format!("open() \"{path}\" failed ({error})"));
            }
        }
    }

    /// At most once a minute: requests must not fill the error log.
    fn complain(&self, x: &Exchange, message: &str) {
        let now = tidegate_rt::clock::unix_seconds();
        let before = self.complained.load(Ordering::Relaxed);
        if now - before >= 60 {
            self.complained.store(now, Ordering::Relaxed);
            x.log(Level::Crit, format_args!("{message}"));
        }
    }
}
