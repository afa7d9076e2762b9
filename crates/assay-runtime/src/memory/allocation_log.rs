//! The allocation log: requests as text, one line each.

use super::resource::TenantId;
use crate::backend::StreamId;
use std::fmt;

/// The outcome of one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Memory was allocated.
    Allocate,
    /// A request failed.
    Refuse,
    /// Memory was freed.
    Free,
}

/// One record of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Time of the call.
    pub time_ns: u64,
    /// Its outcome.
    pub action: Action,
    /// The stream of the call.
    pub stream: StreamId,
    /// The tenant that is charged; the default tenant for a free.
    pub tenant: TenantId,
    /// Size.
    pub bytes: u64,
    /// Address; 0 for a failed request and for an empty allocation.
    pub address: u64,
}

/// Requests in the order in which a resource processed them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllocationLog {
    /// The records.
    pub records: Vec<Record>,
}

/// A syntax error in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogError {
    /// Line in the text, counted from one.
    pub line: usize,
    /// What was expected there.
    pub expected: &'static str,
    /// The text there.
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

    /// Parses the output of [`to_text`](AllocationLog::to_text).
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
        let records =
            lines.map(|(index, line)| parse(index + 1, line)).collect::<Result<_, _>>()?;
        Ok(AllocationLog { records })
    }

    /// Tenants that a resource needs to replay this: one more than the highest number.
    pub fn tenants(&self) -> u32 {
        let highest = self.records.iter().map(|record| record.tenant.0).max();
        highest.map_or(1, |tenant| tenant.saturating_add(1))
    }
}

fn parse(line: usize, text: &str) -> Result<Record, LogError> {
    let error = |expected, got: &str| LogError { line, expected, got: got.to_owned() };
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
