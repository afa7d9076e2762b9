//! A log of requests as text: one line each, so that it can be read, cut and kept.

use super::resource::TenantId;
use crate::backend::StreamId;
use std::fmt;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Memory was handed out.
    Allocate,
    /// A request was refused.
    Refuse,
    /// Memory was given back.
    Free,
}

/// One line of a log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// When.
    pub time_ns: u64,
    /// What.
    pub action: Action,
    /// In whose order.
    pub stream: StreamId,
    /// Charged to whom; the default tenant for a free.
    pub tenant: TenantId,
    /// How many bytes.
    pub bytes: u64,
    /// Where; 0 for a refusal and for an empty allocation.
    pub address: u64,
}

/// Requests in the order in which a resource saw them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllocationLog {
    /// The lines.
    pub records: Vec<Record>,
}

/// Why a text is not a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogError {
    /// Line in the text, counted from one.
    pub line: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there.
    pub got: String,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "allocation log, line {}: expected {}, got \"{}\"",
            self.line, self.expected, self.got
        )
    }
}

impl std::error::Error for LogError {}

const HEADER: &str = "time_ns,action,stream,tenant,bytes,address";

impl AllocationLog {
    /// The log as text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(HEADER);
        text.push('\n');
        for record in &self.records {
            let action = match record.action {
                Action::Allocate => "allocate",
                Action::Refuse => "refuse",
                Action::Free => "free",
            };
            text.push_str(&format!(
                "{},{action},{},{},{},{}\n",
                record.time_ns, record.stream.0, record.tenant.0, record.bytes, record.address
            ));
        }
        text
    }

    /// Reads what [`to_text`](AllocationLog::to_text) wrote.
    pub fn from_text(text: &str) -> Result<Self, LogError> {
        let mut lines = text.lines().enumerate();
        let header = lines.next().map_or("", |(_, line)| line);
        if header != HEADER {
            return Err(LogError {
                line: 1,
                expected: "the header \"time_ns,action,stream,tenant,bytes,address\"",
                got: header.to_owned(),
            });
        }
        let records = lines
            .map(|(index, line)| parse(index + 1, line))
            .collect::<Result<_, _>>()?;
        Ok(AllocationLog { records })
    }

    /// How many tenants a resource needs to replay this: one more than the highest number.
    pub fn tenants(&self) -> u32 {
        let highest = self.records.iter().map(|record| record.tenant.0).max();
        highest.map_or(1, |tenant| tenant.saturating_add(1))
    }
}

fn parse(line: usize, text: &str) -> Result<Record, LogError> {
    let error = |expected, got: &str| LogError {
        line,
        expected,
        got: got.to_owned(),
    };
    let fields: Vec<&str> = text.split(',').collect();
    let [time_ns, action, stream, tenant, bytes, address] = fields[..] else {
        return Err(error("six fields", text));
    };
    let number = |field: &str| {
        let parsed = field.parse::<u64>();
        parsed.map_err(|_| error("a whole number", field))
    };
    let short_number = |field: &str| {
        let parsed = field.parse::<u32>();
        parsed.map_err(|_| error("a whole number below 2^32", field))
    };
    Ok(Record {
        time_ns: number(time_ns)?,
        action: match action {
            "allocate" => Action::Allocate,
            "refuse" => Action::Refuse,
            "free" => Action::Free,
            other => return Err(error("allocate, refuse or free", other)),
        },
        stream: StreamId(short_number(stream)?),
        tenant: TenantId(short_number(tenant)?),
        bytes: number(bytes)?,
        address: number(address)?,
    })
}
