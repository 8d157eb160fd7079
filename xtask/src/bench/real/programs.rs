//! The programs: how to install each, what it needs, and what it does.

use std::process::Command;

use crate::{Failure, Outcome, run};

/// A program. Its scripts run in a folder of their own, `$DIR`; a server listens on `$PORT`.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The file that must be there.
    binary: &'static str,
    from: Package,
    /// Makes its input.
    pub(super) prepare: &'static str,
    /// The recorded command, in the words of a shell.
    pub(super) command: &'static str,
    /// What keeps a server busy.
    pub(super) load: Option<&'static str>,
}

/// Where a program comes from.
enum Package {
    /// Debian's packages of these names.
    Debian(&'static str),
    /// A crate, built by `cargo install`.
    Crate(&'static str),
    /// It is on every machine.
    None,
}

/// The paths of the system's files: text of some megabytes.
const PATHS: &str =
    "[ -s text ] || find / -xdev -path /proc -prune -o -print 2>/dev/null | head -n 600000 > text";
/// Some libraries in one file.
const BYTES: &str =
    "[ -s bytes ] || cat /usr/lib/x86_64-linux-gnu/*.so* 2>/dev/null | head -c 60000000 > bytes";

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "redis",
        binary: "redis-server",
        from: Package::Debian("redis-server redis-tools"),
        prepare: "",
        command: "redis-server --port $PORT --save \"\" --dir $DIR",
        load: Some(
            "until redis-cli -p $PORT ping; do sleep 0.05; done; redis-benchmark -q -p $PORT -P 4 -n 100000000 -t set,get,lpush,lrange_100",
        ),
    },
    Program {
        name: "nginx",
        binary: "nginx",
        from: Package::Debian("nginx-light"),
        prepare: "mkdir -p www; head -c 20000 /usr/share/common-licenses/GPL-3 > www/index.html; \
                  echo \"pid $DIR/pid; error_log $DIR/error; worker_processes 1; daemon off; events {} \
                  http { access_log $DIR/access; gzip on; gzip_proxied any; gzip_types text/html; \
                  server { listen 127.0.0.1:$PORT; root $DIR/www; } }\" > conf",
        command: "nginx -c $DIR/conf",
        load: Some(
            "while :; do curl -s --compressed -o /dev/null \"http://127.0.0.1:$PORT/?[1-5000]\"; done",
        ),
    },
    Program {
        name: "postgres",
        binary: "/usr/lib/postgresql/15/bin/postgres",
        from: Package::Debian("postgresql-15"),
        prepare: "mkdir -p pg; chown -R postgres . ; [ -s pg/PG_VERSION ] || \
                  runuser -u postgres -- /usr/lib/postgresql/15/bin/initdb -D $DIR/pg -A trust > /dev/null",
        command: "runuser -u postgres -- /usr/lib/postgresql/15/bin/postgres -D $DIR/pg -p $PORT -k $DIR \
                  -c fsync=off",
        load: Some(
            "until pg_isready -q -h $DIR -p $PORT; do sleep 0.1; done; \
             runuser -u postgres -- pgbench -q -i -s 2 -h $DIR -p $PORT postgres; \
             runuser -u postgres -- pgbench -c 2 -T 600 -S -h $DIR -p $PORT postgres",
        ),
    },
    Program {
        name: "sqlite3",
        binary: "sqlite3",
        from: Package::Debian("sqlite3"),
        prepare: "echo \"create table t(a integer primary key, b text, c real); \
                  with recursive n(i) as (select 1 union all select i+1 from n where i < 300000 * $ROUNDS) \
                  insert into t select i, hex(i * 7919 % 100003), i * 0.5 from n; \
                  create index b on t(b); select count(*), sum(c) from t where b like '%A%' group by substr(b, 1, 2);\" > sql",
        command: "sqlite3 :memory: \".read sql\"",
        load: None,
    },
    Program {
        name: "zstd",
        binary: "zstd",
        from: Package::Debian("zstd"),
        prepare: BYTES,
        command: "zstd -q -f -T1 -12 bytes -o out.zst",
        load: None,
    },
    Program {
        name: "xz",
        binary: "xz",
        from: Package::Debian("xz-utils"),
        prepare: BYTES,
        command: "sh -c 'head -c $((2000000 * ROUNDS)) bytes | xz -T1 -6 > out.xz'",
        load: None,
    },
    Program {
        name: "ripgrep",
        binary: "rg",
        from: Package::Debian("ripgrep"),
        prepare: PATHS,
        command: "sh -c 'for i in $(seq $((ROUNDS * 4))); do rg -c \"[aeiou]{2}[^/]*\\.(so|py|rs)[0-9.]*$\" text; done'",
        load: None,
    },
    Program {
        name: "jq",
        binary: "jq",
        from: Package::Debian("jq"),
        prepare: "[ -s text ] || find /usr -type f 2>/dev/null | head -n 150000 > text; \
                  [ -s json ] || jq -R '{path: ., parts: split(\"/\")}' text > json",
        command: "jq -c '[.parts[] | length] | add' json",
        load: None,
    },
    Program {
        name: "python3",
        binary: "/usr/bin/python3",
        from: Package::Debian("python3"),
        prepare: PATHS,
        command: "/usr/bin/python3 -c 'import re,collections,json\nfor i in range(6):\n c=collections.Counter(w for l in \
                  open(\"text\",errors=\"replace\") for w in re.findall(\"[a-z]+\",l))\n json.dumps(c)'",
        load: None,
    },
    Program {
        name: "perl",
        binary: "perl",
        from: Package::Debian("perl"),
        prepare: PATHS,
        command: "perl -e 'for (1..$ENV{ROUNDS}) { open F, \"text\"; while (<F>) { $c{$_}++ for split m{[/.\\n]} } } \
                  print join(\",\", (sort { $c{$b} <=> $c{$a} } keys %c)[0..9])'",
        load: None,
    },
    Program {
        name: "gcc",
        binary: "gcc",
        from: Package::Debian("gcc"),
        prepare: "[ -s big.c ] || { echo '#include <stdio.h>'; for i in $(seq 1 1500); do \
                  echo \"int f$i(int *a, int n) { int s = $i; for (int i = 0; i < n; i++) { s += a[i] * $i % (i + 3); \
                  if (s & 1) s ^= f\"$((i > 1 ? i - 1 : 1))\"(a, n / 2); } return s; }\"; done; } > big.c",
        command: "gcc -w -O2 -c big.c -o big.o",
        load: None,
    },
    Program {
        name: "sort",
        binary: "sort",
        from: Package::Debian("coreutils"),
        prepare: PATHS,
        command: "sort --parallel=1 -t/ -k3 text -o sorted",
        load: None,
    },
    Program {
        name: "node",
        binary: "node",
        from: Package::Debian("nodejs"),
        prepare: PATHS,
        command: "node --perf-basic-prof --interpreted-frames-native-stack -e 'const t = \
                  require(\"fs\").readFileSync(\"text\", \"latin1\"); for (let i = 0; i < 4; i++) { const c = {}; for (const w of \
                  t.split(/[\\/\\n]/)) c[w] = (c[w] || 0) + 1; console.log(Object.keys(c).sort().length) }'",
        load: None,
    },
    Program {
        name: "java",
        binary: "javac",
        from: Package::Debian("default-jdk-headless"),
        prepare: "echo 'public class W { static long f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); } \
                  static int g(java.util.Map<String, Integer> m, int i) { return m.merge(\"k\" + i % 5003, 1, Integer::sum); } \
                  public static void main(String[] a) { long s = 0; var m = new java.util.HashMap<String, Integer>(); \
                  for (int i = 0; i < 20000000; i++) s += g(m, i); for (int i = 0; i < 4; i++) s += f(40); \
                  System.out.println(s); } }' > W.java; javac W.java",
        command: "java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -cp $DIR W",
        load: None,
    },
    // In C++.
    Program {
        name: "cppcheck",
        binary: "cppcheck",
        from: Package::Debian("cppcheck"),
        prepare: "[ -s big.c ] || { for i in $(seq 1 400); do echo \"int f$i(int *a, int n) { int s = $i; \
                  for (int i = 0; i < n; i++) { s += a[i] * $i % (i + 3); if (s & 1) s ^= n / 2; } return s; }\"; done; } > big.c",
        command: "cppcheck --quiet --enable=style big.c",
        load: None,
    },
    // In Go; Debian strips it.
    Program {
        name: "gojq",
        binary: "gojq",
        from: Package::Debian("gojq"),
        prepare: "[ -s json ] || find /usr -type f 2>/dev/null | head -n 150000 | gojq -R '{path: ., parts: split(\"/\")}' > json",
        command: "gojq -c '[.parts[] | length] | add' json",
        load: None,
    },
    Program {
        // pyenv's own `python3.12` works only where that version is chosen.
        name: "python3 -X perf",
        binary: "python3.12",
        from: Package::Debian("python3.12"),
        prepare: PATHS,
        command: "env PATH=\"$(echo ~/.pyenv/versions/3.12*/bin):$PATH\" python3.12 -X perf -c 'import re,collections\nfor i in range(6):\n c=collections.Counter(w for l in \
                  open(\"text\",errors=\"replace\") for w in re.findall(\"[a-z]+\",l))'",
        load: None,
    },
    Program {
        name: "forking script",
        binary: "/bin/sh",
        from: Package::None,
        prepare: "",
        command: "sh -c 'for i in $(seq $((ROUNDS * 500))); do x=$(echo $i | sed s/1/2/ | tr 2 3); done'",
        load: None,
    },
    Program {
        name: "tokei",
        binary: "tokei",
        from: Package::Crate("tokei"),
        prepare: "",
        command: "sh -c 'for i in $(seq $ROUNDS); do tokei --no-ignore /usr/lib /usr/share /usr/include; done'",
        load: None,
    },
];

impl Program {
    /// Installs it by apt or cargo if it is missing.
    pub(super) fn install(&self) -> Outcome {
        let is_there = || run::which(self.binary).is_some() || std::path::Path::new(self.binary).is_file();
        if is_there() {
            return Ok(());
        }
        let mut install = match self.from {
            Package::Debian(names) => {
                let mut apt = Command::new("apt-get");
                apt.args(["install", "-qq", "-y", "--no-install-recommends"]).args(names.split(' '));
                apt
            }
            Package::Crate(name) => {
                let mut cargo = Command::new("cargo");
                cargo.args(["install", "--quiet", "--locked", name]);
                cargo
            }
            Package::None => return Err(Failure::unusable(format!("{} is missing", self.binary))),
        };
        println!("   {install:?}");
        run::output(&mut install)?;
        if is_there() { Ok(()) } else { Err(Failure::unusable(format!("{} is missing", self.binary))) }
    }
}

/// Returns an unused port, chosen by the kernel.
pub(super) fn free_port() -> String {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    socket.map_or(0, |address| address.port()).to_string()
}
