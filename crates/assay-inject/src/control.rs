//! The control file: one JSON object that says whether and what to record.

use assay_cuda::cupti::{Activity, Options};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Periods in milliseconds: two of the longest are a second.
const PERIODS: std::ops::RangeInclusive<u64> = 10..=500;

/// Whether to record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Record nothing.
    Idle,
    /// Record.
    Armed,
}

/// What the control file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// Whether to record.
    pub state: State,
    /// What to record.
    pub activities: Vec<Activity>,
    /// How often part-filled buffers are written, in milliseconds.
    pub period_ms: u64,
    /// Files that may be CUPTI, tried before those that the process finds itself.
    pub libraries: Vec<PathBuf>,
}

/// What is wrong with a control file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlError(String);

impl fmt::Display for ControlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ControlError {}

fn expected(what: &str, got: &Value) -> ControlError {
    ControlError(format!("control file: expected {what}, got {got}"))
}

impl Default for Control {
    fn default() -> Self {
        let options = Options::default();
        Control {
            state: State::Idle,
            activities: options.activities,
            period_ms: options.period.as_millis() as u64,
            libraries: Vec::new(),
        }
    }
}

impl Control {
    /// Reads the text of a control file.
    pub fn parse(text: &str) -> Result<Control, ControlError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ControlError(format!("control file: expected JSON: {error}")))?;
        let state = match value["state"].as_str() {
            Some("idle") => State::Idle,
            Some("armed") => State::Armed,
            _ => return Err(expected("state idle or armed", &value["state"])),
        };
        let period_ms = value["period_ms"].as_u64();
        let Some(period_ms) = period_ms.filter(|period| PERIODS.contains(period)) else {
            return Err(expected("period_ms from 10 to 500", &value["period_ms"]));
        };
        let texts = |key: &str| -> Result<Vec<&str>, ControlError> {
            let listed = value[key].as_array();
            let texts = listed.map(|listed| listed.iter().map(Value::as_str).collect());
            let texts: Option<Option<Vec<&str>>> = texts;
            texts
                .flatten()
                .ok_or_else(|| expected(&format!("{key} as a list of texts"), &value[key]))
        };
        let mut activities = Vec::new();
        for name in texts("activities")? {
            let Some(activity) = Activity::of_name(name) else {
                return Err(expected("a known activity", &Value::from(name)));
            };
            activities.push(activity);
        }
        Ok(Control {
            state,
            activities,
            period_ms,
            libraries: texts("libraries")?.into_iter().map(PathBuf::from).collect(),
        })
    }

    /// The text of the control file.
    pub fn to_json(&self) -> String {
        let names: Vec<_> = self.activities.iter().map(|one| one.name()).collect();
        let libraries: Vec<_> = self.libraries.iter().map(|path| path.to_string_lossy()).collect();
        json!({
            "state": match self.state {
                State::Idle => "idle",
                State::Armed => "armed",
            },
            "activities": names,
            "period_ms": self.period_ms,
            "libraries": libraries,
        })
        .to_string()
    }

    /// The options of a session.
    pub fn options(&self) -> Options {
        Options {
            activities: self.activities.clone(),
            period: Duration::from_millis(self.period_ms),
            libraries: self.libraries.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_control_agree() {
        let control = Control {
            state: State::Armed,
            activities: Activity::ALL.to_vec(),
            period_ms: 100,
            libraries: vec![PathBuf::from("/lib/libcupti.so.13")],
        };
        assert_eq!(Control::parse(&control.to_json()), Ok(control));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |from: &str, to: &str| {
            let text = Control::default().to_json().replace(from, to);
            Control::parse(&text).unwrap_err().to_string()
        };
        assert_eq!(
            wrong("\"idle\"", "\"ready\""),
            "control file: expected state idle or armed, got \"ready\""
        );
        assert_eq!(
            wrong("250", "60000"),
            "control file: expected period_ms from 10 to 500, got 60000"
        );
        assert_eq!(
            wrong("\"kernel\"", "\"kernels\""),
            "control file: expected a known activity, got \"kernels\""
        );
        assert!(Control::parse("{").unwrap_err().to_string().contains("expected JSON"));
        assert!(Control::parse("[]").is_err());
    }
}
