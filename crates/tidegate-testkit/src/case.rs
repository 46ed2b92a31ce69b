//! Case files: Markdown with one or more cases. `# Title` begins a case; the fenced blocks
//! ```` ```nginx [LABEL|raw] ````, ```` ```file NAME ````, ```` ```text NAME ````, ```` ```script ```` make it; the
//! rest is prose. A case with an ```` ```each ```` block is as many cases as its table has rows.

use crate::bell::Failure;
use crate::each::Table;
use crate::fixtures::{self, Fixtures};
use crate::markdown::{Part, items};
use crate::syntax::{self, Script};
use crate::texts::Texts;
use std::path::{Path, PathBuf};

/// A configuration block.
#[derive(Debug, Clone)]
pub struct Config {
    /// `main` for the first, else the word after `nginx`.
    pub label: String,
    /// `raw`: written as it is, without the standard frame.
    pub raw: bool,
    /// The text, placeholders not yet filled.
    pub text: String,
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where the file is.
    pub path: PathBuf,
    /// Its name in reports.
    pub file: String,
    /// Line of the title.
    pub line: usize,
    /// The title.
    pub title: String,
    /// Configurations; the first is started with.
    pub configs: Vec<Config>,
    /// Files (name, content) made before the start; no line end after the last line.
    pub files: Vec<(String, String)>,
    /// The named texts that the script refers to.
    pub texts: Texts,
    /// Items of the `covers:` lines: directives, `$variables` and sections (`RFC 9111 4.2.4`).
    pub covers: Vec<String>,
    /// The script's text and the line it begins at.
    pub script_text: String,
    /// First line of the script.
    pub script_line: usize,
    /// The script, parsed before placeholders are filled: says which worlds, finds mistakes.
    pub script: Script,
    /// The table of an `each` block, until the case is made many.
    table: Option<Table>,
}

impl Case {
    /// How reports name it.
    pub fn name(&self) -> String {
        format!("{}:{}: {}", self.file, self.line, self.title)
    }

    /// Whether it is one of the many cases of a table.
    pub fn is_of_table(&self) -> bool {
        self.table.is_some()
    }
}

/// Reads the cases of the files `paths` and of all files below the directories among them. A file is read once.
/// One directory alone is left out of the names that reports show.
///
/// # Errors
/// All mistakes found, as `file:line: text`.
pub fn load(paths: &[PathBuf]) -> Result<Vec<Case>, Vec<Failure>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_file() {
            files.push(path.clone());
        } else {
            find(path, &mut files).map_err(|error| {
                vec![Failure::new(format!("cannot read {}: {error}", path.display()))]
            })?;
        }
    }
    files.sort();
    files.dedup();
    let (mut cases, mut mistakes) = (Vec::new(), Vec::new());
    for file in files {
        let name = shown_name(&file, paths);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| vec![Failure::new(format!("{name}: {error}"))]);
        let found = text.and_then(|text| parse(&name, &text, Fixtures::of_file(&file)?));
        match found {
            Ok(found) => {
                cases.extend(found.into_iter().map(|case| Case { path: file.clone(), ..case }));
            }
            Err(mut found) => mistakes.append(&mut found),
        }
    }
    // A mistake in the common fixtures is one, not one for each file that may use them.
    mistakes.dedup();
    if mistakes.is_empty() { Ok(cases) } else { Err(mistakes) }
}

fn shown_name(file: &Path, paths: &[PathBuf]) -> String {
    let below = match paths {
        [directory] => file.strip_prefix(directory).ok(),
        _ => None,
    };
    below.filter(|rest| rest.components().count() > 0).unwrap_or(file).display().to_string()
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md")
            && path.file_name().is_some_and(|name| name != "README.md" && name != fixtures::FILE)
        {
            files.push(path);
        }
    }
    Ok(())
}

/// The cases of one file.
///
/// # Errors
/// All mistakes found, as `file:line: text`.
pub(crate) fn parse(file: &str, text: &str, fixtures: Fixtures) -> Result<Vec<Case>, Vec<Failure>> {
    let mut reader = Reader {
        file,
        fixtures,
        cases: Vec::new(),
        is_described: false,
        covers: Vec::new(),
        mistakes: Vec::new(),
    };
    for item in items(text) {
        match item.part {
            Part::Title(title) => {
                reader.finish();
                reader.begin(item.line, title);
            }
            Part::Prose(text) => reader.prose(item.line, text),
            Part::Block { info, text, is_closed } => {
                if !is_closed {
                    reader.mistake(item.line, "this block is not closed");
                }
                reader.block(item.line, info, text);
            }
        }
    }
    reader.finish();
    if reader.cases.is_empty() {
        reader.mistake(1, "no case: `# Title` begins one");
    }
    if reader.mistakes.is_empty() { Ok(reader.cases) } else { Err(reader.mistakes) }
}

struct Reader<'a> {
    file: &'a str,
    /// Those of `fixtures.md` and of this file.
    fixtures: Fixtures,
    cases: Vec<Case>,
    /// Whether the case has a line of prose above its first block.
    is_described: bool,
    /// What all cases of the file cover: the `covers:` lines before the first title.
    covers: Vec<String>,
    mistakes: Vec<Failure>,
}

impl Reader<'_> {
    fn mistake(&mut self, line: usize, text: impl std::fmt::Display) {
        self.mistakes.push(Failure::new(format!("{}:{line}: {text}", self.file)));
    }

    fn begin(&mut self, line: usize, title: &str) {
        self.is_described = false;
        self.cases.push(Case {
            path: PathBuf::new(),
            file: self.file.to_owned(),
            line,
            title: title.to_owned(),
            configs: Vec::new(),
            files: Vec::new(),
            texts: Texts::default(),
            covers: self.covers.clone(),
            script_text: String::new(),
            script_line: 0,
            script: Script::default(),
            table: None,
        });
    }

    /// A line outside of blocks.
    fn prose(&mut self, line: usize, text: &str) {
        let Some(items) = text.strip_prefix("covers:") else {
            let is_above = self.cases.last().is_none_or(|case| case.configs.is_empty());
            self.is_described |= is_above;
            return;
        };
        for item in items.split(',').map(str::trim) {
            if !is_covered(item) {
                let text =
                    format!("`{item}` is no directive, no `$variable` and no `RFC 9111 4.2`");
                self.mistake(line, text);
                continue;
            }
            let covers = self.cases.last_mut().map_or(&mut self.covers, |case| &mut case.covers);
            covers.push(item.to_owned());
        }
    }

    fn block(&mut self, line: usize, info: &str, mut text: String) {
        let (kind, argument) = info.split_once(' ').unwrap_or((info, ""));
        let argument = argument.trim();
        let Some(case) = self.cases.last_mut() else {
            return match self.before_titles(kind, argument, text) {
                Ok(()) => {}
                Err(mistake) => self.mistake(line, mistake),
            };
        };
        match kind {
            "nginx" => {
                let raw = argument.split(' ').any(|word| word == "raw");
                let label = argument.split(' ').find(|word| !word.is_empty() && *word != "raw");
                let label = label.unwrap_or("main").to_owned();
                let repeated = case.configs.iter().any(|config| config.label == label);
                let (text, unknown) = match self.fixtures.expand(&text) {
                    Ok(expanded) => (expanded, None),
                    Err(unknown) => (text, Some(unknown)),
                };
                case.configs.push(Config { label, raw, text });
                if repeated {
                    self.mistake(line, "a second configuration needs a label of its own");
                }
                if let Some((index, mistake)) = unknown {
                    self.mistake(line + 1 + index, mistake);
                }
            }
            "file" if !argument.is_empty() => {
                text.truncate(text.trim_end_matches('\n').len());
                case.files.push((argument.to_owned(), text));
            }
            "file" => self.mistake(line, "the file's name is missing"),
            "script" if case.script_text.is_empty() => {
                case.script_line = line + 1;
                case.script_text = text;
            }
            "script" => self.mistake(line, "a case has one script"),
            "each" if case.table.is_none() => match Table::parse(&text, line + 1) {
                Ok(table) => case.table = Some(table),
                Err((line, mistake)) => self.mistake(line, mistake),
            },
            "each" => self.mistake(line, "a case has one table"),
            "text" if !argument.is_empty() => {
                if let Err(mistake) = case.texts.add(argument, &text) {
                    self.mistake(line, mistake);
                }
            }
            "fixture" => self.mistake(line, "a fixture comes before the first `# Title`"),
            "" | "text" => {}
            other => self.mistake(line, format!("unknown block `{other}`")),
        }
    }

    /// A block before the first title.
    fn before_titles(&mut self, kind: &str, name: &str, text: String) -> Result<(), Failure> {
        match kind {
            "" | "text" => Ok(()),
            "fixture" if !name.is_empty() => self.fixtures.add(name, text),
            "fixture" => Err(Failure::new("the fixture's name is missing")),
            _ => Err(Failure::new("a block before the first `# Title`")),
        }
    }

    /// Checks the case that just ended and makes a table's rows cases of their own.
    fn finish(&mut self) {
        let Some(case) = self.cases.pop() else { return };
        let (line, mut found) = (case.line, Vec::new());
        if case.configs.is_empty() {
            found.push((line, Failure::new("the case has no ```nginx block")));
        }
        if !self.is_described {
            let text = "no sentence below the title says what the case shows and why it matters";
            found.push((line, Failure::new(text)));
        }
        if let Some(name) = case.texts.unused(&case.script_text) {
            found.push((line, Failure::new(format!("the script does not use the text `{name}`"))));
        }
        let many = match case.table.as_ref().map(|table| table.rows_of(&case)) {
            None => vec![case],
            Some(Ok(many)) => many,
            Some(Err(mistake)) => {
                found.push((line, mistake));
                vec![case]
            }
        };
        for mut case in many {
            match syntax::parse(&case.script_text, case.script_line, &case.texts) {
                Ok(script) if script.lines.is_empty() => {
                    found.push((line, Failure::new("the case has no script")));
                }
                Ok(script) => case.script = script,
                Err(mut mistakes) => found.append(&mut mistakes),
            }
            self.cases.push(case);
        }
        // A mistake outside of what the table fills in is one mistake, not one for each row.
        found.dedup();
        for (line, mistake) in found {
            self.mistake(line, mistake);
        }
    }
}

/// Whether an item of a `covers:` line has the form of a directive, a variable or a section of an RFC.
fn is_covered(item: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match item.strip_prefix("RFC ").and_then(|rest| rest.split_once(' ')) {
        Some((number, section)) => is_number(number) && section.split('.').all(is_number),
        None => is_name(item.strip_prefix('$').unwrap_or(item)),
    }
}
