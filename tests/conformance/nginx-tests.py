#!/usr/bin/env python3
"""Run nginx's own test suite (nginx-tests) against a web server binary.

    nginx-tests.py --tests DIR --binary PATH [--jobs N] [--only REGEX]
                   [--timeout 120] [--out results.tsv] [--baseline base.tsv]
                   [--expected list.tsv] [--own-name NAME]
                   [--repeated-tickets]
    nginx-tests.py --merge run1.tsv run2.tsv ... --out base.tsv
    nginx-tests.py --report results.tsv [--baseline base.tsv]

Needs Python 3.8+ (standard library only), perl, and the suite's own needs.

Every .t file runs under a small supervisor process.  As root (default) the
file gets its own network namespace (only `lo`) and its own PID namespace, and
runs as an unprivileged user (files that say 'must be root' run as root): no
port clashes, no traffic off the machine, and when the file ends or runs out of
time the kernel kills everything it started.  Without root (or with
--isolate none) the supervisor is a session leader and child subreaper and
kills every descendant, including ones that daemonized.  Nothing is ever killed
by name.

TAP is parsed here, per assertion.  Result codes (run-length encoded in the
`results` column, e.g. 12p1f2H):

    p pass   f fail   s skip   t TODO (either way)   u planned but never ran
    H pass / h fail of the suite's own housekeeping assertions, which
      Test::Nginx adds to each file: 'no alerts', 'no sanitizer errors'
    x not stable in the baseline (made by --merge): never counted

With --baseline only the assertions that the baseline passes (p, H) count:
parity = those that pass here too / those.  A file that is skipped or dies here
but ran there counts as 0 for whatever did not run.  With --floor (the results
of a server that starts but answers nothing) a second parity leaves out what
even that one passes: the honest number for an early, incomplete server.

Files of the suite skip themselves unless `-V` says OpenSSL and which one. A
server that is built with rustls is therefore run through a script that, for
the arguments `-V` alone, puts OPENSSL in the place of rustls' name; all other
arguments reach the server unchanged (--no-openssl-word: no such script).

Three files check the field Server, which is a server's own. With --own-name
they run in a copy that expects this name where they expect nginx's; all that
server_tokens changes (the version, the build, error pages) is checked as it is.

The suite's client for HTTP/3 cuts session tickets from the data it has received
and ends when that data comes again, which a server may send until it is
acknowledged (RFC 9000 13.3). With --repeated-tickets it runs in a copy that
takes the repetition.
"""

import argparse
import ctypes
import errno
import fnmatch
import json
import os
import pwd
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

# ---------------------------------------------------------------- areas ----

AREAS = [  # first match wins
    ('acme', r'^acme_'),
    ('h3/quic', r'h3_|quic_'),
    ('h2', r'h2[_.]'),
    ('grpc', r'grpc'),
    ('proxy_h2', r'proxy_h2'),
    ('proxy_cache', r'proxy_cache'),
    ('proxy_ssl', r'proxy_ssl'),
    ('proxy_protocol', r'proxy_protocol'),
    ('proxy', r'proxy|tunnel'),
    ('fastcgi', r'fastcgi'),
    ('scgi/uwsgi', r'scgi|uwsgi'),
    ('memcached', r'memcached'),
    ('stream_ssl', r'stream_(proxy_)?ssl'),
    ('stream_upstream', r'stream_upstream|stream_udp_upstream'),
    ('stream', r'stream_'),
    ('mail', r'mail_'),
    ('upstream', r'upstream'),
    ('ssl', r'ssl'),
    ('limit', r'limit_'),
    ('ssi', r'ssi'),
    ('sub', r'sub_filter|subrequest'),
    ('gzip', r'gzip|gunzip'),
    ('auth', r'auth_'),
    ('access/log', r'access|error_log|syslog|debug_'),
    ('geo/map/vars', r'geo[_.]|map[_.]|split_clients|userid|realip|referer|'
                     r'request_id|secure_link'),
    ('rewrite', r'rewrite'),
    ('range/media', r'range|mp4|slice|not_modified'),
    ('dav', r'dav'),
    ('filters', r'addition|charset|headers|trailers|mirror|msie|post_action|'
                r'empty_gif|merge_slashes'),
    ('static/index', r'autoindex|index|random_index'),
    ('body', r'body'),
    ('perl/xslt/image/geoip', r'perl|xslt|image_filter|geoip'),
    ('process', r'binary_upgrade|worker_|config_dump|stub_status'),
    ('http core', r'http_|ignore_|server_tokens'),
]
AREAS = [(n, re.compile('(?:%s)' % r)) for n, r in AREAS]


def area_of(name):
    for area, rx in AREAS:
        if rx.match(name):
            return area
    return 'other'


# ------------------------------------------------------- TAP and results ----

HOUSE = ('no alerts', 'no sanitizer errors')
RX_PLAN = re.compile(r'^1\.\.(\d+)\s*(?:#\s*(skip)\S*\s*(.*))?$', re.I)
RX_TEST = re.compile(r'^(not )?ok\b\s*(\d+)?\s*(?:-\s*)?(.*)$')
RX_DIR = re.compile(r'(?<!\\)#\s*(todo|skip)\b\S*\s*(.*)$', re.I)
RX_BAIL = re.compile(r'^Bail out!\s*(.*)$')


def rle(codes):
    out, i = [], 0
    while i < len(codes):
        j = i
        while j < len(codes) and codes[j] == codes[i]:
            j += 1
        out.append('%d%s' % (j - i, codes[i]))
        i = j
    return ''.join(out)


def unrle(s):
    return ''.join(c * int(n) for n, c in re.findall(r'(\d+)([a-zA-Z])', s))


def parse_tap(text):
    """-> dict(plan, skip_all, bail, codes {n: code}, names {n: name})"""
    plan = skip_all = bail = None
    codes, names, auto = {}, {}, 0
    for line in text.split('\n'):
        line = line.rstrip('\r')
        m = RX_TEST.match(line)
        if m:
            auto = int(m.group(2)) if m.group(2) else auto + 1
            rest = m.group(3)
            d = RX_DIR.search(rest)
            name = (rest[:d.start()] if d else rest).strip()
            ok = not m.group(1)
            if d and d.group(1).lower() == 'todo':
                code = 't'
            elif d:
                code = 's'
            elif name in HOUSE:
                code = 'H' if ok else 'h'
            else:
                code = 'p' if ok else 'f'
            if auto in codes and codes[auto] in 'fh':
                continue  # a repeated number never improves a result
            codes[auto] = code
            names[auto] = name or (d.group(2) if d else '')
            continue
        m = RX_PLAN.match(line)
        if m and plan is None:
            plan = int(m.group(1))
            if plan == 0:
                skip_all = (m.group(3) or '').strip() or 'no reason given'
            continue
        m = RX_BAIL.match(line)
        if m:
            bail = m.group(1) or 'bail out'
    return dict(plan=plan, skip_all=skip_all, bail=bail, codes=codes,
                names=names)


COLS = ('file', 'area', 'status', 'planned', 'ran', 'passed', 'failed',
        'skipped', 'todo', 'unrun', 'seconds', 'rc', 'leaked', 'reason',
        'results', 'failures')


def clean(s):
    return re.sub(r'[\t\r\n]+', ' ', str(s)).strip()


def static_plan(src):
    """Plan as written in the file, for files that die before printing it."""
    m = re.search(r'->plan\((\d+)\)', src)
    if m:
        return int(m.group(1)) + 2
    m = re.search(r'\bplan\(tests => (\d+)\)', src)
    return int(m.group(1)) if m else 0


def make_row(name, tap, res, guess):
    row = dict.fromkeys(COLS, '')
    row.update(file=name, area=area_of(name), seconds='%.2f' % res['seconds'],
               rc=res['rc'], leaked=res.get('leaked', 0))
    timed = res.get('timeout')
    if tap['skip_all'] is not None and not tap['codes'] and not timed:
        row.update(status='skipped', reason=clean(tap['skip_all']), planned=0,
                   ran=0, passed=0, failed=0, skipped=0, todo=0, unrun=0)
        return row
    plan, noplan = tap['plan'], tap['plan'] is None
    codes = dict(tap['codes'])
    if noplan:
        plan = max([guess or 0] + list(codes))
    # housekeeping assertions of a file that died early sit at wrong numbers:
    # they say nothing about the planned assertion of that number
    for n in list(codes):
        if codes[n] in 'Hh' and n < plan - 1:
            del codes[n]
    seq = [codes.get(n, 'u') for n in range(1, plan + 1)]
    cnt = {c: seq.count(c) for c in 'pfstuHh'}
    ran = len(seq) - cnt['u']
    why = []
    if timed:
        status = 'timeout'
        why.append(timed)
    elif tap['bail'] is not None:
        status = 'died'
        why.append('bail out: ' + tap['bail'])
    elif noplan or cnt['u']:
        status = 'died'
        if noplan:
            why.append('no plan printed')
        if res.get('stderr'):
            why.append(res['stderr'])
    elif cnt['f'] or cnt['h']:
        status = 'fail'
    elif res['rc'] != 0:
        status = 'fail'
        why.append('exit status %s' % res['rc'])
    else:
        status = 'ok'
    bad = ['%d %s' % (n, tap['names'].get(n, '')) for n in sorted(codes)
           if codes[n] in 'fh']
    row.update(status=status, planned=plan, ran=ran,
               passed=cnt['p'] + cnt['H'],
               failed=cnt['f'] + cnt['h'] + cnt['u'], skipped=cnt['s'],
               todo=cnt['t'], unrun=cnt['u'], reason=clean('; '.join(why)),
               results=rle(''.join(seq)), failures=clean(' | '.join(bad)))
    return row


def write_tsv(path, rows, meta):
    tmp = path + '.tmp'
    with open(tmp, 'w') as f:
        for k, v in meta.items():
            f.write('# %s: %s\n' % (k, clean(v)))
        f.write('\t'.join(COLS) + '\n')
        for r in sorted(rows, key=lambda r: r['file']):
            f.write('\t'.join(clean(r[c]) for c in COLS) + '\n')
    os.replace(tmp, path)


def read_tsv(path):
    rows, meta, head = {}, {}, None
    with open(path) as f:
        for line in f:
            line = line.rstrip('\n')
            if line.startswith('# '):
                k, _, v = line[2:].partition(': ')
                meta[k] = v
            elif head is None:
                head = line.split('\t')
            elif line:
                r = dict(zip(head, line.split('\t')))
                rows[r['file']] = r
    return rows, meta


def merge(paths, out):
    """Baseline of several runs: what passed in some runs only becomes 'x'."""
    runs = [read_tsv(p) for p in paths]
    rows, unstable = [], []
    for name in sorted(set().union(*[r[0] for r in runs])):
        have = [r[0][name] for r in runs if name in r[0]]
        best = max(have, key=lambda r: int(r['passed'] or 0))
        row = dict(best)
        ran = [r for r in have if r['status'] != 'skipped']
        if ran:
            codes = [unrle(r['results']) for r in ran]
            if len(set(codes)) > 1 or len(ran) != len(have):
                seq = list(unrle(best['results']))
                for i, c in enumerate(seq):
                    got = set(x[i] if i < len(x) else 'u' for x in codes)
                    if len(ran) != len(have):
                        got.add('s')
                    if c in 'pH' and got != {c}:
                        seq[i] = 'x'
                        unstable.append('%s %d' % (name, i + 1))
                row['results'] = rle(''.join(seq))
                row['passed'] = sum(c in 'pH' for c in seq)
        # slowest run: used for time limits
        row['seconds'] = '%.2f' % max(float(r['seconds']) for r in have)
        rows.append(row)
    meta = dict(runs[0][1])
    meta['merged'] = '%d runs' % len(runs)
    meta['unstable'] = ', '.join(unstable) or 'none'
    write_tsv(out, rows, meta)
    print('merged %d runs, %d files; unstable assertions: %s'
          % (len(runs), len(rows), meta['unstable']))


# ----------------------------------------------------------- supervision ----

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000


def prctl(*a):
    return libc.prctl(*[ctypes.c_ulong(x) for x in (list(a) + [0] * 5)[:5]])


def unshare(flags):
    if libc.unshare(flags):
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def lo_up():
    import fcntl
    import socket
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ifr = struct.pack('16sH14x', b'lo', 0)
    flags = struct.unpack('16sH14x', fcntl.ioctl(s, 0x8913, ifr))[1]
    fcntl.ioctl(s, 0x8914, struct.pack('16sH14x', b'lo', flags | 1))
    # default route into lo (SIOCADDRT): addresses off the machine then are a
    # black hole (connect timeout), as tunnel_next_upstream.t expects
    try:
        any4 = struct.pack('=H14x', socket.AF_INET)
        dev = ctypes.create_string_buffer(b'lo')
        fcntl.ioctl(s, 0x890b, struct.pack(
            '@L16s16s16sHhLPhPLLH', 0, any4, any4, any4, 1, 0, 0, 0, 0,
            ctypes.addressof(dev), 0, 0, 0))
    except OSError:
        pass
    s.close()


def can_isolate():
    if os.geteuid() != 0:
        return False
    pid = os.fork()
    if pid == 0:
        try:
            unshare(CLONE_NEWNET | CLONE_NEWPID)
            lo_up()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def exec_perl(job):
    """In the child that becomes the test: never returns."""
    try:
        for s in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM,
                  signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(s, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        lim = 4 << 30
        resource.setrlimit(resource.RLIMIT_FSIZE, (lim, lim))
        null = os.open('/dev/null', os.O_RDONLY)
        out = os.open(job['out'], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        err = os.open(job['err'], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 256)
        os.chdir(job['tests'])
        if job['uid'] is not None:
            os.setgroups([])
            os.setgid(job['gid'])
            os.setuid(job['uid'])
        os.execvpe('perl', ['perl', job['file']], job['env'])
    except BaseException as e:
        try:
            os.write(2, ('runner: %s\n' % e).encode())
        finally:
            os._exit(127)


def wait_perl(perl):
    """Reap everything until perl ends -> (rc, left-over children?)"""
    while True:
        pid, st = os.wait()
        if pid == perl:
            break
    rc = os.WEXITSTATUS(st) if os.WIFEXITED(st) else -os.WTERMSIG(st)
    for _ in range(15):  # daemons may still be on their way out
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return rc, 0
        time.sleep(0.02)
    return rc, 1


def descendants(root):
    kids = {}
    for d in os.listdir('/proc'):
        if d.isdigit():
            try:
                with open('/proc/%s/stat' % d) as f:
                    pp = int(f.read().rpartition(')')[2].split()[1])
                kids.setdefault(pp, []).append(int(d))
            except (OSError, ValueError, IndexError):
                pass
    todo, out = [root], []
    while todo:
        for k in kids.get(todo.pop(), []):
            out.append(k)
            todo.append(k)
    return out


def kill_descendants():
    me, end = os.getpid(), time.time() + 10
    while time.time() < end:
        for p in descendants(me):
            try:
                os.kill(p, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)


def supervise(job, parent):
    """In a forked child: run one file within its limits, write job['res']."""
    start = time.time()
    res = dict(rc=None, leaked=0, timeout=None)
    sigs = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, sigs)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        rfd, wfd = os.pipe()
        if job['isolate']:
            unshare(CLONE_NEWNET | CLONE_NEWPID)
        else:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
        first = os.fork()
        if first == 0:
            os.close(rfd)
            if not job['isolate']:
                exec_perl(job)
            # init of the PID namespace: when it ends, all in it is killed
            try:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                signal.pthread_sigmask(signal.SIG_SETMASK, [])
                lo_up()
                perl = os.fork()
                if perl == 0:
                    exec_perl(job)
                rc, leaked = wait_perl(perl)
                os.write(wfd, b'%d %d' % (rc, leaked))
            finally:
                os._exit(0)
        os.close(wfd)
        deadline, done, stop = start + job['timeout'], False, None
        while not done and not stop:
            left = deadline - time.time()
            if left <= 0:
                stop = 'no end within %d s' % job['timeout']
                break
            si = signal.sigtimedwait(sigs, left)
            if si and si.si_signo != signal.SIGCHLD:
                stop = 'runner stopped'
            while True:
                try:
                    pid, st = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                if pid == first:
                    done = True
                    res['rc'] = (os.WEXITSTATUS(st) if os.WIFEXITED(st)
                                 else -os.WTERMSIG(st))
        if not job['isolate']:
            if done:
                end = time.time() + 0.3
                while descendants(os.getpid()) and time.time() < end:
                    try:
                        os.waitpid(-1, os.WNOHANG)
                    except ChildProcessError:
                        break
                    time.sleep(0.02)
                res['leaked'] = int(bool(descendants(os.getpid())))
            kill_descendants()
        else:
            if not done:
                os.kill(first, signal.SIGKILL)
                os.waitpid(first, 0)
            else:
                got = os.read(rfd, 64).split()
                if len(got) == 2:
                    res['rc'], res['leaked'] = int(got[0]), int(got[1])
        res['timeout'] = stop
    except BaseException as e:
        res['timeout'] = 'supervisor: %r' % (e,)
    res['seconds'] = time.time() - start
    with open(job['res'], 'w') as f:
        json.dump(res, f)
    os._exit(0)


# ----------------------------------------------------------------- running --

# What the baseline's server is built with, so that both run the same parts.
OPENSSL = 'OpenSSL 3.0.22'
RX_RUSTLS = re.compile(r'^built with rustls.*$', re.M)


def openssl_word(binary, info, path):
    """Writes the script that shows an OpenSSL word in -V -> its path"""
    shown = RX_RUSTLS.sub('built with ' + OPENSSL, info)
    with open(path, 'w') as f:
        f.write('#!/bin/sh\n'
                'if [ "$*" = -V ]; then\n'
                'cat >&2 <<\'END\'\n%s\nEND\n'
                'exit 0\n'
                'fi\n'
                'exec %s "$@"\n' % (shown.rstrip('\n'), shlex.quote(binary)))
    os.chmod(path, 0o755)
    return path


OWN_NAME_FILES = '*server_tokens.t'


def expect_own_name(tests, name):
    """Changes the expected name in the copy TESTS, below the server's start"""
    for f in fnmatch.filter(os.listdir(tests), OWN_NAME_FILES):
        path = os.path.join(tests, f)
        setup, run, checks = read_text(path).partition('$t->run()')
        with open(path, 'w') as out:
            out.write(setup + run + re.sub(r'\bnginx\b', name, checks))


def take_repeated_tickets(tests):
    """Changes the client of the copy TESTS"""
    path = os.path.join(tests, 'lib/Test/Nginx/HTTP3.pm')
    ends = 'die "bad inner" if $old ne @$this[2];'
    client = read_text(path)
    if ends not in client:
        sys.exit('--repeated-tickets: the client of the suite has changed')
    with open(path, 'w') as out:
        out.write(client.replace(ends, ends.replace(
            ' if ', ' if length @$this[2] == @$this[1] && ')))


def reachable(path, uid, gid, mode):
    if uid is None:
        return True
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            os._exit(0 if os.access(path, mode) else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def version_info(binary, env):
    try:
        p = subprocess.run([binary, '-V'], stdin=subprocess.DEVNULL, env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=10)
        return p.stdout.decode('utf-8', 'replace')
    except (OSError, subprocess.TimeoutExpired) as e:
        return 'no -V: %s' % e


def read_text(path, limit=16 << 20):
    try:
        with open(path, 'rb') as f:
            return f.read(limit).decode('utf-8', 'replace')
    except OSError:
        return ''


def run_all(a, base):
    binary, tests = os.path.abspath(a.binary), os.path.abspath(a.tests)
    if not os.access(binary, os.X_OK):
        sys.exit('no executable at %s' % binary)
    files = sorted(f for f in os.listdir(tests) if f.endswith('.t'))
    if a.only:
        files = [f for f in files if re.search(a.only, f)]
    if not files:
        sys.exit('no test files')

    isolate = a.isolate != 'none' and can_isolate()
    if a.isolate == 'ns' and not isolate:
        sys.exit('namespaces asked for but not to be had')
    uid = gid = None
    user = a.user
    if os.geteuid() == 0 and user != 'root':
        pw = pwd.getpwnam('nobody' if user == 'auto' else user)
        uid, gid, user = pw.pw_uid, pw.pw_gid, pw.pw_name
    else:
        user = pwd.getpwuid(os.geteuid()).pw_name

    work = tempfile.mkdtemp(prefix='cf-')  # short: unix socket paths go in it
    os.chmod(work, 0o755)
    try:
        copied = a.own_name or a.repeated_tickets
        if copied or not reachable(tests, uid, gid, os.R_OK | os.X_OK):
            shutil.copytree(tests, work + '/tests',
                            ignore=shutil.ignore_patterns('.git', '.hg'))
            subprocess.run(['chmod', '-R', 'a+rX', work + '/tests'])
            tests = work + '/tests'
        if a.own_name:
            expect_own_name(tests, a.own_name)
        if a.repeated_tickets:
            take_repeated_tickets(tests)
        if not reachable(binary, uid, gid, os.X_OK):
            os.mkdir(work + '/bin')
            shutil.copy2(binary, work + '/bin/')
            binary = work + '/bin/' + os.path.basename(binary)
            os.chmod(binary, 0o755)
        return run_files(a, base, binary, tests, files, isolate, uid, gid,
                         user, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_files(a, base, binary, tests, files, isolate, uid, gid, user, work):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(('TEST_NGINX_', 'HARNESS_'))
           or k in ('TEST_NGINX_GLOBALS', 'TEST_NGINX_GLOBALS_HTTP',
                    'TEST_NGINX_GLOBALS_STREAM', 'TEST_NGINX_SOFTHSM',
                    'TEST_NGINX_PEBBLE_BINARY')}
    env.update(TEST_NGINX_BINARY=binary, LC_ALL='C', LANG='C')
    env['PATH'] = env.get('PATH', '') + ':/usr/sbin:/sbin'
    if not a.safe:
        env['TEST_NGINX_UNSAFE'] = '1'
    info = version_info(binary, env)
    if RX_RUSTLS.search(info) and not a.no_openssl_word:
        env['TEST_NGINX_BINARY'] = openssl_word(binary, info, work + '/nginx')
    if a.modules:
        env['TEST_NGINX_MODULES'] = os.path.abspath(a.modules)
    else:
        m = re.search(r'--modules-path=(\S+)', info)
        if m and '=dynamic' in info and os.path.isdir(m.group(1)):
            env['TEST_NGINX_MODULES'] = m.group(1)

    t0 = time.time()
    meta = {
        'binary': a.binary,
        'version': info.split('\n')[0],
        'tests': tests,
        'date': time.strftime('%Y-%m-%d %H:%M:%S'),
        'settings': 'user=%s isolate=%s unsafe=%d jobs=%d timeout=%d'
                    % (user, 'ns' if isolate else 'none', not a.safe, a.jobs,
                       a.timeout),
    }

    srcs = {f: read_text(os.path.join(tests, f)) for f in files}

    def limit(f):
        b = base.get(f)
        if b is None:
            return a.timeout
        s = float(b['seconds'])
        return max(min(a.timeout, max(30, 6 * s + 15)), 2 * s + 15)

    def guess(f):
        b = base.get(f)
        if b and b['planned'] not in ('', '0'):
            return int(b['planned'])
        return static_plan(srcs[f])

    # slowest first, so that the last job does not run alone for long
    queue = sorted(files, key=lambda f: (-float(base[f]['seconds'])
                                         if f in base else 0, f))
    tries = {f: 0 for f in files}
    rows, live, seq = {}, {}, 0
    stopped = []

    def on_stop(sig, frm):
        stopped.append(sig)

    old = {s: signal.signal(s, on_stop)
           for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    parent, ndone = os.getpid(), 0
    hard_end = t0 + a.max_seconds

    def finish(pid):
        nonlocal ndone
        f, job, began = live.pop(pid)
        try:
            with open(job['res']) as fh:
                res = json.load(fh)
        except (OSError, ValueError):
            res = dict(rc=None, timeout='supervisor lost',
                       seconds=time.time() - began)
        out, err = read_text(job['out']), read_text(job['err'])
        last = [l for l in err.split('\n')
                if l.strip() and not l.startswith('#')
                and not re.match(r'nginx: \[(warn|notice)\]', l)]
        res['stderr'] = last[0][:200] if last else ''
        row = make_row(f, parse_tap(out), res, guess(f))
        if a.logs and row['status'] not in ('ok', 'skipped'):
            os.makedirs(a.logs, exist_ok=True)
            with open(os.path.join(a.logs, f + '.log'), 'w') as fh:
                fh.write(out + '\n----- stderr\n' + err)
        shutil.rmtree(job['dir'], ignore_errors=True)
        if f not in rows or (int(row['passed']), row['status'] == 'ok') > (
                int(rows[f]['passed']), rows[f]['status'] == 'ok'):
            rows[f] = row
        if (row['status'] not in ('ok', 'skipped') and tries[f] <= a.retry
                and not stopped):
            queue.append(f)
            return
        ndone += 1
        if a.verbose or sys.stderr.isatty():
            r = rows[f]
            print('[%d/%d] %-44s %-8s %4s/%-4s %7ss %s'
                  % (ndone, len(files), f, r['status'], r['passed'],
                     r['planned'], r['seconds'],
                     (r['reason'] or r['failures'])[:60]),
                  file=sys.stderr, flush=True)

    while queue or live:
        now = time.time()
        if (stopped or now > hard_end) and queue:
            why = 'run stopped' if stopped else 'time for the whole run is up'
            for f in queue:
                if f not in rows:
                    rows[f] = make_row(f, parse_tap(''), dict(
                        rc=None, seconds=0, timeout=why), guess(f))
            queue.clear()
        if stopped:
            for pid in live:
                try:
                    os.kill(pid, signal.SIGTERM)
                except OSError:
                    pass
            stopped[:] = stopped[:1]
        while queue and len(live) < a.jobs:
            f = queue.pop(0)
            tries[f] += 1
            seq += 1
            d = '%s/%d' % (work, seq)
            os.mkdir(d)
            tmp = d + '/t'
            os.mkdir(tmp)
            as_root = uid is None or 'must be root' in srcs[f]
            if not as_root:
                os.chown(tmp, uid, gid)
            e = dict(env, TMPDIR=tmp, HOME=tmp)
            job = dict(file=f, tests=tests, dir=d, out=d + '/out',
                       err=d + '/err', res=d + '/res', env=e,
                       isolate=isolate, timeout=limit(f),
                       uid=None if as_root else uid,
                       gid=None if as_root else gid)
            pid = os.fork()
            if pid == 0:
                try:
                    for s in old:
                        signal.signal(s, signal.SIG_DFL)
                    supervise(job, parent)
                finally:
                    os._exit(1)
            live[pid] = (f, job, time.time())
        for pid, (f, job, began) in list(live.items()):
            if time.time() - began > job['timeout'] + 30:
                try:
                    os.kill(pid, signal.SIGKILL)  # takes its namespace along
                except OSError:
                    pass
        got = False
        for pid in list(live):
            if os.waitpid(pid, os.WNOHANG)[0]:
                finish(pid)
                got = True
        if not got:
            time.sleep(0.01)

    for s, h in old.items():
        signal.signal(s, h)
    meta['wall'] = '%.0f s' % (time.time() - t0)
    return rows, meta, bool(stopped)


# ---------------------------------------------------------------- reporting --

def pct(a, b):
    if not b:
        return '-'
    p = 100.0 * a / b
    s = '%.1f%%' % p
    return '99.9%' if s == '100.0%' and a != b else s


def table(head, lines):
    lines = [[str(c) for c in l] for l in lines]
    w = [max(len(r[i]) for r in [head] + lines) for i in range(len(head))]
    for r in [head] + lines:
        print('  '.join(c.ljust(w[i]) if i == 0 else c.rjust(w[i])
                        for i, c in enumerate(r)).rstrip())


def num(r, k):
    return int(r.get(k) or 0)


def report(rows, meta, base=None, bmeta=None, list_full=True, floor=None):
    allr = sorted(rows.values(), key=lambda r: r['file'])
    for k in ('binary', 'version', 'settings', 'wall'):
        if k in meta:
            print('%s: %s' % (k, meta[k]))
    st = {}
    for r in allr:
        st[r['status']] = st.get(r['status'], 0) + 1
    ran = [r for r in allr if r['status'] != 'skipped']
    tot = {k: sum(num(r, k) for r in ran)
           for k in ('planned', 'ran', 'passed', 'failed', 'skipped', 'todo',
                     'unrun')}
    house = sum(unrle(r['results']).count('H') for r in ran)
    print('\nfiles: %d  run: %d  (ok %d, fail %d, died %d, timeout %d)'
          '  skipped: %d' % (len(allr), len(ran), st.get('ok', 0),
                             st.get('fail', 0), st.get('died', 0),
                             st.get('timeout', 0), st.get('skipped', 0)))
    print('assertions: planned %(planned)d  passed %(passed)d  '
          'failed %(failed)d (of them %(unrun)d never ran)  '
          'skipped %(skipped)d  todo %(todo)d' % tot)
    print('  of the passed, %d are housekeeping (no alerts / no sanitizer '
          'errors)' % house)

    def by(f):
        d = {}
        for r in allr:
            d.setdefault(r['area'], []).append(r)
        return [f(k, d[k]) for k in sorted(d)]

    if base is None:
        print()
        table(['area', 'files', 'ok', 'bad', 'skip', 'planned', 'passed',
               'failed', 'skipped', 'todo', 'seconds'],
              by(lambda k, v: [
                  k, len(v), sum(r['status'] == 'ok' for r in v),
                  sum(r['status'] in ('fail', 'died', 'timeout') for r in v),
                  sum(r['status'] == 'skipped' for r in v)]
                  + [sum(num(r, c) for r in v)
                     for c in ('planned', 'passed', 'failed', 'skipped',
                               'todo')]
                  + ['%.0f' % sum(float(r['seconds']) for r in v)]))
        bad = [r for r in allr if r['status'] not in ('ok', 'skipped')]
        if bad:
            print('\nfiles not ok:')
            for r in bad:
                print('  %-42s %-8s %s/%s  %s' % (
                    r['file'], r['status'], r['passed'], r['planned'],
                    (r['reason'] + ' ' + r['failures']).strip()[:110]))
        sk = {}
        for r in allr:
            if r['status'] == 'skipped':
                sk.setdefault(r['reason'], []).append(r['file'])
        if sk:
            print('\nskipped files:')
            for k in sorted(sk, key=lambda k: -len(sk[k])):
                print('  %3d  %s: %s' % (len(sk[k]), k,
                                         ' '.join(sk[k])[:150]))
        return None

    # parity: only what the baseline passes counts
    score, extra = {}, []
    for r in allr:
        b = base.get(r['file'])
        if b is None:
            extra.append(r['file'])
            continue
        want, got = unrle(b['results']), unrle(r['results'])
        free = unrle(floor[r['file']]['results']) \
            if floor and r['file'] in floor else ''
        n = p = hn = hp = fn = fp = 0
        for i, c in enumerate(want):
            if c not in 'pH':
                continue
            n += 1
            hn += c == 'H'
            solid = c == 'p' and free[i:i + 1] != 'p'
            fn += solid
            if i < len(got) and got[i] in 'pH':
                p += 1
                hp += c == 'H'
                fp += solid
        score[r['file']] = (n, p, hn, hp, fn, fp)
    n, p, hn, hp, fn, fp = [sum(s[i] for s in score.values())
                            for i in range(6)]
    files = [f for f in score if score[f][0]]
    full = [f for f in files if score[f][0] == score[f][1]]
    part = [f for f in files if 0 < score[f][1] < score[f][0]]
    zero = [f for f in files if score[f][1] == 0]
    lost = [r for r in allr if r['status'] == 'skipped'
            and base.get(r['file'], {}).get('status') not in (None, 'skipped')]
    print('\nparity: %s  (%d of the %d assertions that the baseline passes)'
          % (pct(p, n), p, n))
    print('  without housekeeping assertions: %s  (%d of %d)'
          % (pct(p - hp, n - hn), p - hp, n - hn))
    if floor:
        print('  also without what a server that answers nothing passes: '
              '%s  (%d of %d)' % (pct(fp, fn), fp, fn))
    print('  files at 100%%: %d of %d (%s)   partly: %d   at 0: %d   '
          'skipped here but not in the baseline: %d'
          % (len(full), len(files), pct(len(full), len(files)), len(part),
             len(zero), len(lost)))
    for k in ('settings',):
        if bmeta.get(k) and meta.get(k) and \
                re.sub(r' (jobs|timeout)=\d+', '', bmeta[k]) != \
                re.sub(r' (jobs|timeout)=\d+', '', meta[k]):
            print('  note: baseline settings differ: ' + bmeta[k])
    print()

    def line(k, v):
        s = [score[r['file']] for r in v if r['file'] in score]
        f = [x for x in s if x[0]]
        bn, bp = sum(x[0] for x in s), sum(x[1] for x in s)
        return [k, len(f), sum(x[0] == x[1] for x in f), bn, bp, pct(bp, bn),
                pct(sum(x[5] for x in s), sum(x[4] for x in s)) if floor else
                pct(bp - sum(x[3] for x in s), bn - sum(x[2] for x in s)),
                sum(r in lost for r in v),
                sum(r['status'] == 'died' for r in v),
                sum(r['status'] == 'timeout' for r in v)]

    lines = by(line)
    lines.append(['TOTAL'] + [sum(l[i] for l in lines) for i in range(1, 5)]
                 + [pct(p, n), pct(fp, fn) if floor else pct(p - hp, n - hn)]
                 + [sum(l[i] for l in lines) for i in range(7, 10)])
    table(['area', 'files', 'at 100%', 'baseline', 'passed', 'parity',
           'above floor' if floor else 'w/o housek.', 'skipped', 'died', 'timeout'], lines)
    if list_full:
        print('\nfiles at 100%% (%d):' % len(full))
        print('\n'.join('  ' + f for f in full))
    else:
        short = [f for f in files if f not in set(full)]
        print('\nfiles below 100%% (%d):' % len(short))
        for f in short:
            r = rows[f]
            print('  %-42s %4d/%-4d %-8s %s' % (
                f, score[f][1], score[f][0], r['status'],
                (r['reason'] + ' ' + r['failures']).strip()[:100]))
    if extra:
        print('\nnot in the baseline: ' + ' '.join(extra))
    return (p, n)


# ---------------------------------------------------- expected differences --

def read_expected(path):
    """-> [(pattern, number or None for all, reason)]"""
    out = []
    with open(path) as f:
        for number, line in enumerate(f, 1):
            if line.startswith('#') or not line.strip():
                continue
            cells = line.rstrip('\n').split('\t')
            if len(cells) != 3 or not cells[2] or \
                    not (cells[1] == 'all' or cells[1].isdigit()):
                sys.exit('%s:%d: not pattern, number and reason'
                         % (path, number))
            out.append((cells[0], None if cells[1] == 'all'
                        else int(cells[1]), cells[2]))
    return out


def compare(rows, base, expected):
    """Prints what differs from the list; True: nothing is worse."""
    worse, better, used = [], [], set()
    for name in sorted(rows):
        if name not in base:
            continue
        want, got = [unrle(x['results']) for x in (base[name], rows[name])]
        lost = sum(c in 'pH' and got[i:i + 1] not in ('p', 'H')
                   for i, c in enumerate(want))
        entry = next((e for e in expected
                      if fnmatch.fnmatchcase(name, e[0])), None)
        if entry:
            used.add(entry)
        allowed = 0 if entry is None else \
            len(want) if entry[1] is None else entry[1]
        line = '  %-42s %4d not passed, %s in the list  %s' % (
            name, lost, allowed, rows[name]['failures'][:100])
        if lost > allowed:
            worse.append(line)
        elif entry and (lost == 0 or entry[1] not in (None, lost)):
            better.append(line)
    for title, lines in (('\nWORSE than the list of expected differences:',
                          worse), ('\nbetter than the list:', better)):
        if lines:
            print(title)
            print('\n'.join(lines))
    print('\nexpected differences: %d entries, %d files worse, %d better'
          % (len(used), len(worse), len(better)))
    return not worse


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument('--tests', metavar='DIR', help='checkout of nginx-tests')
    ap.add_argument('--binary', metavar='PATH', help='server under test')
    ap.add_argument('--jobs', type=int, default=1, metavar='N')
    ap.add_argument('--only', metavar='REGEX', help='on the file name')
    ap.add_argument('--timeout', type=int, default=120, metavar='S',
                    help='per file; with --baseline less: max(30, 6x+15),\n'
                    'x = seconds in the baseline')
    ap.add_argument('--max-seconds', type=int, default=7200, metavar='S',
                    help='for the whole run (default 7200): then the rest\n'
                    'counts as failed')
    ap.add_argument('--out', metavar='TSV')
    ap.add_argument('--baseline', metavar='TSV')
    ap.add_argument('--expected', metavar='TSV',
                    help='with --baseline: known differences; exit 1 if a\n'
                    'file loses more than its entry says')
    ap.add_argument('--floor', metavar='TSV',
                    help='results of a server that answers nothing')
    ap.add_argument('--logs', metavar='DIR',
                    help='keep the output of files that are not ok')
    ap.add_argument('--retry', type=int, default=0, metavar='N',
                    help='run a file that is not ok up to N more times,\n'
                    'keep its best run')
    ap.add_argument('--user', default='auto',
                    help="as root: whom to run as (auto: nobody; root)")
    ap.add_argument('--isolate', choices=('auto', 'ns', 'none'),
                    default='auto', help='network and PID namespace per file')
    ap.add_argument('--safe', action='store_true',
                    help='leave out what wants TEST_NGINX_UNSAFE')
    ap.add_argument('--modules', metavar='DIR', help='TEST_NGINX_MODULES')
    ap.add_argument('--own-name', metavar='NAME',
                    help="the name in the server's field Server")
    ap.add_argument('--repeated-tickets', action='store_true',
                    help="the suite's client takes repeated session tickets")
    ap.add_argument('--no-openssl-word', action='store_true',
                    help='show -V of a server with rustls as it is')
    ap.add_argument('--below', action='store_true',
                    help='list files below 100 %% in place of those at it')
    ap.add_argument('--fail-under', type=float, metavar='PCT',
                    help='exit 1 if parity is lower')
    ap.add_argument('--verbose', '-v', action='store_true')
    ap.add_argument('--merge', nargs='+', metavar='TSV',
                    help='make a baseline of several runs (to --out)')
    ap.add_argument('--report', metavar='TSV',
                    help='report on a saved run, run nothing')
    a = ap.parse_args()

    if a.merge:
        if not a.out:
            ap.error('--merge needs --out')
        return merge(a.merge, a.out)
    base, bmeta = read_tsv(a.baseline) if a.baseline else ({}, {})
    floor = read_tsv(a.floor)[0] if a.floor else None
    if a.report:
        rows, meta = read_tsv(a.report)
        stopped = False
    else:
        if not a.tests or not a.binary:
            ap.error('--tests and --binary are needed')
        rows, meta, stopped = run_all(a, base)
        if a.out:
            write_tsv(a.out, rows.values(), meta)
    got = report(rows, meta, base if a.baseline else None, bmeta,
                 not a.below, floor)
    if stopped:
        sys.exit(130)
    if a.expected and not compare(rows, base, read_expected(a.expected)):
        sys.exit(1)
    if a.fail_under is not None and got and got[1] and \
            100.0 * got[0] / got[1] < a.fail_under:
        sys.exit(1)


if __name__ == '__main__':
    try:
        main()
    except BrokenPipeError:
        os._exit(1)
