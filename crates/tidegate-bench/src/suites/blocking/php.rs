//! PHP for the suite blocking: its scripts, and php-fpm.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::PHP_SOCKET;
use crate::machine::Place;
use crate::procfs::{self, CpuTime};

/// php-fpm with the scripts of this suite; dropping it stops it.
pub(super) struct Php {
    child: Child,
}

impl Php {
    /// Starts it in a server's directory, with a number of processes, and waits for its socket.
    pub(super) fn start(directory: &Path, cpu: usize, children: usize) -> Result<Php, String> {
        let written = write_scripts(directory).and_then(|()| write_config(directory, children));
        written.map_err(|error| format!("php: {error}"))?;
        let mut failure = "php-fpm is not installed".to_owned();
        for program in PHP_PROGRAMS {
            match Php::spawn(Path::new(program), directory, cpu) {
                Ok(child) => return Php { child }.ready(directory),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => failure = format!("{program}: {error}"),
            }
        }
        Err(failure)
    }

    fn spawn(program: &Path, directory: &Path, cpu: usize) -> io::Result<Child> {
        let output = File::create(directory.join("php-output.txt"))?;
        let mut command = Command::new(program);
        // -R: it may run as root, as the servers do when the bench does.
        command.args(["-F", "-R", "-n", "-y"]).arg(directory.join(PHP_CONFIG));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        thread::scope(|scope| {
            let starter = scope.spawn(|| {
                crate::machine::pin_current_thread(Place::one(cpu))?;
                command.spawn()
            });
            starter.join().unwrap_or_else(|_| Err(io::Error::other("starting thread panicked")))
        })
    }

    fn ready(mut self, directory: &Path) -> Result<Php, String> {
        let end = Instant::now() + PHP_READY;
        while Instant::now() < end {
            if directory.join(PHP_SOCKET).exists() {
                return Ok(self);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let text = std::fs::read_to_string(directory.join("php-output.txt"));
                return Err(format!("php-fpm ended ({status}): {}", text.unwrap_or_default()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err("php-fpm is not ready".to_owned())
    }

    pub(super) fn cpu_time(&self) -> CpuTime {
        let root = self.child.id() as i32;
        procfs::cpu_time(&procfs::family(root).unwrap_or_else(|_| vec![root]))
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// The same pages as those of the example's handlers.
pub(super) fn write_scripts(directory: &Path) -> io::Result<()> {
    std::fs::write(directory.join("html/document.php"), DOCUMENT_PHP)?;
    std::fs::write(directory.join("html/slow.php"), SLOW_PHP)
}

fn write_config(directory: &Path, children: usize) -> io::Result<()> {
    let shown = directory.display();
    let user = match rustix::process::geteuid().is_root() {
        true => "user = root\ngroup = root\n",
        false => "",
    };
    let config = format!(
        "[global]\nerror_log = {shown}/php.log\ndaemonize = no\n[www]\n{user}\
         listen = {shown}/{PHP_SOCKET}\npm = static\npm.max_children = {children}\n"
    );
    std::fs::write(directory.join(PHP_CONFIG), config)
}

const SLOW_PHP: &str = "<?php usleep(100000); echo \"That took 100 ms.\\n\";";

const DOCUMENT_PHP: &str = r#"<?php
$visit = hrtime(true) % 1000000;
$page = "<!DOCTYPE html><title>Visit $visit</title><p>You come from {$_SERVER['REMOTE_ADDR']}.</p><ul>\n";
$text = "What a page says is mostly the same for everybody, and some of it is new each time: "
    . "a name, a price, how many are left. This row stands for one that a template makes: "
    . "it has its numbers, and around them the words that a writer has written once. Where "
    . "the words come from does not matter here; that they are put together anew for each "
    . "visit does.";
for ($row = 1; strlen($page) < 9740; $row++) {
    $page .= "<li>Row $row of visit $visit: " . $row * $visit . ". $text</li>\n";
}
echo str_pad($page, 10235), "</ul>";
"#;
const PHP_PROGRAMS: [&str; 4] =
    ["/usr/sbin/php-fpm8.4", "/usr/sbin/php-fpm8.3", "/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm"];
const PHP_CONFIG: &str = "php-fpm.conf";
const PHP_READY: Duration = Duration::from_secs(10);
