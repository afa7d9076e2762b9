// The journal of a run, as it is written: server-sent events while the run goes on.

import { useEffect, useState } from "react";
import { listen } from "../../api/client";
import { Card } from "../../components/card";
import { ErrorState, Loading } from "../../components/states";
import { Tag } from "../../components/tag";
import { BlockChart } from "./block-chart";
import { when } from "./words";

interface JournalRecord {
  readonly number: number;
  readonly at: number;
  readonly kind: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const QUIET: ReadonlySet<string> = new Set(["block", "intend", "applied", "reverting", "reverted"]);

export function Journal(props: {
  readonly run: string;
  readonly ended?: (() => void) | undefined;
}) {
  const [records, setRecords] = useState<readonly JournalRecord[]>([]);
  const { ended } = props;
  const [state, setState] = useState<"open" | "ended" | Error>("open");
  // biome-ignore lint/correctness/useExhaustiveDependencies: one stream a run.
  useEffect(() => {
    const leave = new AbortController();
    let waiting: JournalRecord[] = [];
    let timer = 0;
    const flush = () => {
      timer = 0;
      const fresh = waiting;
      waiting = [];
      setRecords((before) => [...before, ...fresh]);
    };
    setRecords([]);
    listen(
      `runs/${props.run}/events`,
      (event, data) => {
        if (event === "record") waiting.push(data as JournalRecord);
        if (event === "end") {
          setState("ended");
          ended?.();
        }
        // Hundreds of records at once are drawn once.
        timer ||= window.setTimeout(flush, 60);
      },
      leave.signal,
    ).then(
      () => setState((before) => (before === "open" ? "ended" : before)),
      (error: Error) => {
        if (!leave.signal.aborted) setState(error);
      },
    );
    return () => {
      leave.abort();
      clearTimeout(timer);
    };
  }, [props.run]);
  if (state instanceof Error) return <ErrorState error={state} />;
  if (!records.length) return <Loading what="Reading the journal" />;
  const blocks = records.filter((one) => one.kind === "block");
  const told = records.filter((one) => !QUIET.has(one.kind)).reverse();
  return (
    <div className="stack">
      {blocks.length > 1 && (
        <Card title="Blocks" about="Every measured block in order of time, by arm.">
          <BlockChart blocks={blocks.map((one) => one.data)} />
        </Card>
      )}
      <Card
        title="Journal"
        about={`${records.length} records; changes and single blocks are counted, not listed.`}
        actions={
          <Tag tone={state === "open" ? "accent" : "plain"}>
            {state === "open" ? "live" : "ended"}
          </Tag>
        }
      >
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must scroll by keyboard. */}
        <ol className="journal" aria-live="polite" aria-label="Records" tabIndex={0}>
          {told.slice(0, 200).map((one) => (
            <li key={one.number}>
              <span className="number muted small">{when(one.at).slice(11)}</span>
              <strong>{one.kind}</strong>
              <span className="muted">{wordsOf(one)}</span>
            </li>
          ))}
        </ol>
      </Card>
    </div>
  );
}

/** What a record says, in a line. */
function wordsOf({ kind, data }: JournalRecord): string {
  const text = (name: string) => (data[name] === undefined ? "" : String(data[name]));
  if (kind === "degradation") return text("text");
  if (kind === "phase") return text("name");
  if (kind === "experiment" || kind === "kept") return text("experiment");
  if (kind === "verdict") return `${text("experiment")}: ${text("verdict")}, ${text("reason")}`;
  if (kind === "finished") return text("verdict");
  if (kind === "safe") return text("why");
  if (kind === "started") return `${text("engine")} ${text("model")}`;
  return "";
}
