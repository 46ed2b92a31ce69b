//! Case files: Markdown with one or more cases. `# Title` begins a case; the fenced blocks
//! ```` ```nginx [LABEL|raw] ````, ```` ```file NAME ````, ```` ```script ```` make it; all else is prose.
//! A case with an ```` ```each ```` block stands for as many cases as its table has rows.

use crate::bell::Failure;
use crate::each::Table;
use crate::syntax::{self, Script};
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
    /// File, relative to the directory of cases.
    pub file: String,
    /// Line of the title.
    pub line: usize,
    /// The title.
    pub title: String,
    /// Configurations; the first is started with.
    pub configs: Vec<Config>,
    /// Files (name, content) made before the start; no line end after the last line.
    pub files: Vec<(String, String)>,
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
}

/// All cases below `directory`, sorted by file; or all mistakes found, as `file:line: text`.
pub fn load(directory: &Path) -> Result<Vec<Case>, Vec<Failure>> {
    let mut files = Vec::new();
    if directory.is_file() {
        files.push(directory.to_owned());
    } else {
        find(directory, &mut files).map_err(|error| {
            vec![Failure::new(format!("cannot read {}: {error}", directory.display()))]
        })?;
    }
    files.sort();
    let (mut cases, mut mistakes) = (Vec::new(), Vec::new());
    for file in files {
        let shown = file.strip_prefix(directory).ok().filter(|rest| rest.components().count() > 0);
        let name = shown.unwrap_or(&file).display().to_string();
        match std::fs::read_to_string(&file) {
            Ok(text) => match parse(&name, &text) {
                Ok(mut found) => cases.append(&mut found),
                Err(mut found) => mistakes.append(&mut found),
            },
            Err(error) => mistakes.push(Failure::new(format!("{name}: {error}"))),
        }
    }
    if mistakes.is_empty() { Ok(cases) } else { Err(mistakes) }
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md")
            && path.file_name().is_some_and(|name| name != "README.md")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Cases of one file.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, Vec<Failure>> {
    let mut reader = Reader { file, cases: Vec::new(), mistakes: Vec::new() };
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let fence = line.len() - line.trim_start_matches('`').len();
        if fence >= 3 {
            let close = &line[..fence];
            let mut block = String::new();
            let mut closed = false;
            for (_, inner) in lines.by_ref() {
                if inner.trim_end() == close {
                    closed = true;
                    break;
                }
                block.push_str(inner);
                block.push('\n');
            }
            if !closed {
                reader.mistake(index + 1, "this block is not closed");
            }
            reader.block(index + 1, line[fence..].trim(), block);
        } else if let Some(title) = line.strip_prefix("# ") {
            reader.finish();
            reader.begin(index + 1, title.trim());
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
    cases: Vec<Case>,
    mistakes: Vec<Failure>,
}

impl Reader<'_> {
    fn mistake(&mut self, line: usize, text: impl std::fmt::Display) {
        self.mistakes.push(Failure::new(format!("{}:{line}: {text}", self.file)));
    }

    fn begin(&mut self, line: usize, title: &str) {
        self.cases.push(Case {
            file: self.file.to_owned(),
            line,
            title: title.to_owned(),
            configs: Vec::new(),
            files: Vec::new(),
            script_text: String::new(),
            script_line: 0,
            script: Script::default(),
            table: None,
        });
    }

    fn block(&mut self, line: usize, info: &str, mut text: String) {
        let (kind, argument) = info.split_once(' ').unwrap_or((info, ""));
        let argument = argument.trim();
        let Some(case) = self.cases.last_mut() else {
            return self.mistake(line, "a block before the first `# Title`");
        };
        match kind {
            "nginx" => {
                let raw = argument.split(' ').any(|word| word == "raw");
                let label = argument.split(' ').find(|word| !word.is_empty() && *word != "raw");
                let label = label.unwrap_or("main").to_owned();
                let repeated = case.configs.iter().any(|config| config.label == label);
                case.configs.push(Config { label, raw, text });
                if repeated {
                    self.mistake(line, "a second configuration needs a label of its own");
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
            "" | "text" => {}
            other => self.mistake(line, format!("unknown block `{other}`")),
        }
    }

    /// Checks the case that just ended and makes a table's rows cases of their own.
    fn finish(&mut self) {
        let Some(case) = self.cases.pop() else { return };
        let (line, mut found) = (case.line, Vec::new());
        if case.configs.is_empty() {
            found.push((line, Failure::new("the case has no ```nginx block")));
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
            match syntax::parse(&case.script_text, case.script_line) {
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
