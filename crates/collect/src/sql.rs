//! SQL for the engines that read the blocks as they are: views over all of them, and the questions people ask.

/// An engine that reads Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlEngine {
    /// DuckDB.
    DuckDb,
    /// ClickHouse (also `clickhouse local` and chdb).
    ClickHouse,
}

impl SqlEngine {
    /// Returns the engine of this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "duckdb" => Some(Self::DuckDb),
            "clickhouse" => Some(Self::ClickHouse),
            _ => None,
        }
    }
}

/// The tables of a block, and their columns besides the first, by which rows are the same in all blocks.
const TABLES: &[(&str, &str, &[&str])] = &[
    ("stacks", "stack", &["locations"]),
    (
        "locations",
        "location",
        &["build_id", "mapping", "offset", "functions", "system_names", "files", "lines"],
    ),
    (
        "series",
        "series",
        &["service_name", "name", "type", "unit", "period_type", "period_unit", "period", "labels"],
    ),
];

/// Where the blocks are, as an engine finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlocksLocation<'a> {
    /// A folder, by its path.
    Folder(&'a str),
    /// A bucket that collectors share, by a URL that the engine knows: `s3://BUCKET/PREFIX`, or for ClickHouse
    /// `https://HOST/BUCKET/PREFIX`.
    Bucket(&'a str),
}

/// Returns statements that make the views `samples`, `stacks`, `locations`, `series` and `stack_functions`.
pub fn views(engine: SqlEngine, place: BlocksLocation<'_>) -> String {
    let files = |table: &str| {
        let (BlocksLocation::Folder(root) | BlocksLocation::Bucket(root)) = place;
        let root = root.trim_end_matches('/');
        let path = quoted(engine, &format!("{root}/blocks/*/*/*/{table}.parquet"));
        match (engine, place) {
            // Blocks of earlier versions have no column with the profile.
            (SqlEngine::DuckDb, _) if table == "samples" => {
                format!("read_parquet({path}, union_by_name = true)")
            }
            (SqlEngine::DuckDb, _) => format!("read_parquet({path})"),
            (SqlEngine::ClickHouse, BlocksLocation::Folder(_)) => format!("file({path}, Parquet)"),
            (SqlEngine::ClickHouse, BlocksLocation::Bucket(_)) => format!("s3({path}, 'Parquet')"),
        }
    };
    // In a bucket, a profile may be in several blocks: two collectors accepted it, or its block was merged recently.
    let rows = if matches!(place, BlocksLocation::Bucket(_)) { "DISTINCT *" } else { "*" };
    let (create, any) = match engine {
        SqlEngine::DuckDb => ("CREATE OR REPLACE VIEW", "any_value"),
        SqlEngine::ClickHouse => ("CREATE OR REPLACE VIEW", "any"),
    };
    let mut text = format!("{create} samples AS SELECT {rows} FROM {};\n", files("samples"));
    for (table, key, columns) in TABLES {
        let columns: String =
            columns.iter().map(|column| format!(", {any}(b.{column}) AS {column}")).collect();
        text += &format!(
            "{create} {table} AS SELECT b.{key} AS {key}{columns}\n  FROM {} AS b GROUP BY b.{key};\n",
            files(table)
        );
    }
    text += &match engine {
        SqlEngine::DuckDb => format!(
            "{create} stack_functions AS SELECT DISTINCT k.stack, unnest(l.functions) AS function\n  \
             FROM (SELECT stack, unnest(locations) AS location FROM stacks) AS k JOIN locations AS l USING (location);\n"
        ),
        SqlEngine::ClickHouse => format!(
            "{create} stack_functions AS SELECT DISTINCT k.stack AS stack, l.function AS function\n  \
             FROM (SELECT stack, arrayJoin(locations) AS location FROM stacks) AS k\n  \
             JOIN (SELECT location, arrayJoin(functions) AS function FROM locations) AS l USING (location);\n"
        ),
    };
    text
}

fn quoted(engine: SqlEngine, text: &str) -> String {
    let text = text.replace('\'', "''");
    match engine {
        SqlEngine::DuckDb => format!("'{text}'"),
        SqlEngine::ClickHouse => format!("'{}'", text.replace('\\', "\\\\")),
    }
}

/// A question, and how to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub title: &'static str,
    /// The statement, for the service `checkout` and one hour.
    pub sql: String,
}

/// The questions; `@RANGE` is the condition on the time, `@MINUTE` the minute of a time, `@INT(…)` a whole number.
const QUESTIONS: &[(&str, &str)] = &[
    (
        "Which functions of a service use CPU time themselves?",
        "SELECT l.functions[1] AS function, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series) JOIN stacks AS k USING (stack)
JOIN locations AS l ON l.location = k.locations[1]
WHERE r.service_name = 'checkout' AND r.type = 'cpu' AND @RANGE
GROUP BY function ORDER BY nanoseconds DESC, function",
    ),
    (
        "Which functions use CPU time, with everything they call?",
        "SELECT f.function AS function, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series) JOIN stack_functions AS f USING (stack)
WHERE r.service_name = 'checkout' AND r.type = 'cpu' AND @RANGE
GROUP BY function ORDER BY nanoseconds DESC, function",
    ),
    (
        "Which services use most CPU time?",
        "SELECT r.service_name AS service, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series)
WHERE r.type = 'cpu' AND @RANGE
GROUP BY service ORDER BY nanoseconds DESC, service",
    ),
    (
        "How does a service's CPU time change, minute by minute?",
        "SELECT @MINUTE AS minute, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series)
WHERE r.service_name = 'checkout' AND r.type = 'cpu' AND @RANGE
GROUP BY minute ORDER BY minute",
    ),
    (
        "How is the CPU time distributed over the values of a label?",
        "SELECT r.labels['version'] AS version, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series)
WHERE r.service_name = 'checkout' AND r.type = 'cpu' AND @RANGE
GROUP BY version ORDER BY version",
    ),
    (
        "Which functions changed from one version to the next?",
        "SELECT l.functions[1] AS function,
  @INT(sum(CASE WHEN r.labels['version'] = '1' THEN s.value ELSE 0 END)) AS before,
  @INT(sum(CASE WHEN r.labels['version'] = '2' THEN s.value ELSE 0 END)) AS after
FROM samples AS s JOIN series AS r USING (series) JOIN stacks AS k USING (stack)
JOIN locations AS l ON l.location = k.locations[1]
WHERE r.service_name = 'checkout' AND r.type = 'cpu' AND @RANGE
GROUP BY function ORDER BY function",
    ),
    (
        "Which functions hold memory now?",
        "SELECT l.functions[1] AS function, @INT(sum(s.value)) AS bytes
FROM samples AS s JOIN series AS r USING (series) JOIN stacks AS k USING (stack)
JOIN locations AS l ON l.location = k.locations[1]
JOIN (SELECT s.series AS series, max(s.time) AS latest FROM samples AS s WHERE @RANGE GROUP BY s.series) AS m
  ON m.series = s.series AND m.latest = s.time
WHERE r.service_name = 'checkout' AND r.type = 'inuse_space'
GROUP BY function ORDER BY bytes DESC, function",
    ),
    (
        "Which services run a function, and what does it cost them?",
        "SELECT r.service_name AS service, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series) JOIN stack_functions AS f USING (stack)
WHERE f.function = 'serde_json::from_slice' AND r.type = 'cpu' AND @RANGE
GROUP BY service ORDER BY nanoseconds DESC, service",
    ),
    (
        "What did one trace do?",
        "SELECT l.functions[1] AS function, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series) JOIN stacks AS k USING (stack)
JOIN locations AS l ON l.location = k.locations[1]
WHERE s.trace = '4bf92f3577b34da6a3ce929d0e0e4736' AND r.type = 'cpu' AND @RANGE
GROUP BY function ORDER BY nanoseconds DESC, function",
    ),
    (
        "Which builds ran, and what did their code cost?",
        "SELECT l.build_id AS build, @INT(sum(s.value)) AS nanoseconds
FROM samples AS s JOIN series AS r USING (series) JOIN stacks AS k USING (stack)
JOIN locations AS l ON l.location = k.locations[1]
WHERE r.service_name = 'checkout' AND r.type = 'cpu' AND @RANGE
GROUP BY build ORDER BY nanoseconds DESC, build",
    ),
];

/// Returns the questions people ask, for the hour from 10:00 to 11:00 UTC of 15 January 2026.
pub fn questions(engine: SqlEngine) -> Vec<Question> {
    let (range, minute) = match engine {
        SqlEngine::DuckDb => (
            "s.time >= TIMESTAMPTZ '2026-01-15 10:00:00+00' AND s.time < TIMESTAMPTZ '2026-01-15 11:00:00+00'",
            "date_trunc('minute', s.time AT TIME ZONE 'UTC')",
        ),
        SqlEngine::ClickHouse => (
            "s.time >= toDateTime64('2026-01-15 10:00:00', 6, 'UTC') AND s.time < toDateTime64('2026-01-15 11:00:00', 6, 'UTC')",
            "toStartOfMinute(s.time)",
        ),
    };
    let int = match engine {
        SqlEngine::DuckDb => "CAST(@ AS BIGINT)",
        SqlEngine::ClickHouse => "toInt64(@)",
    };
    QUESTIONS
        .iter()
        .map(|(title, sql)| {
            let sql = with_ints(sql, int).replace("@RANGE", range).replace("@MINUTE", minute);
            Question { title, sql: sql + ";" }
        })
        .collect()
}

/// Replaces each `@INT(…)`.
fn with_ints(sql: &str, int: &str) -> String {
    let mut parts = sql.split("@INT(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut depth = 1;
        let end = part.char_indices().find(|(_, letter)| {
            depth += i32::from(*letter == '(') - i32::from(*letter == ')');
            depth == 0
        });
        let end = end.map_or(part.len(), |(at, _)| at);
        text += &int.replace('@', &part[..end]);
        text += part.get(end + 1..).unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted() {
        let views = views(SqlEngine::DuckDb, BlocksLocation::Folder("/it's here/"));
        assert!(views.contains("read_parquet('/it''s here/blocks/*/*/*/series.parquet')"), "{views}");
    }

    #[test]
    fn a_profile_in_two_blocks_of_a_bucket_counts_once() {
        let duckdb = views(SqlEngine::DuckDb, BlocksLocation::Bucket("s3://profiles/eu"));
        let path = "s3://profiles/eu/blocks/*/*/*/samples.parquet";
        assert!(duckdb.contains(&format!("SELECT DISTINCT * FROM read_parquet('{path}'")), "{duckdb}");
        let clickhouse = views(
            SqlEngine::ClickHouse,
            BlocksLocation::Bucket("https://s3.eu-west-1.amazonaws.com/profiles"),
        );
        let path = "https://s3.eu-west-1.amazonaws.com/profiles/blocks/*/*/*/samples.parquet";
        assert!(
            clickhouse.contains(&format!("SELECT DISTINCT * FROM s3('{path}', 'Parquet')")),
            "{clickhouse}"
        );
    }

    #[test]
    fn there_are_ten_questions_for_each_engine() {
        for engine in [SqlEngine::DuckDb, SqlEngine::ClickHouse] {
            let questions = questions(engine);
            assert_eq!(questions.len(), 10);
            assert!(questions.iter().all(|question| !question.sql.contains('@')), "{questions:?}");
        }
        let first = &questions(SqlEngine::ClickHouse)[0].sql;
        assert!(first.contains("toInt64(sum(s.value)) AS nanoseconds"), "{first}");
    }
}
